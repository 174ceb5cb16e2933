// Elements of the page. Names from outside only ever become text, never markup.

export function element(tag, values = {}, ...children) {
  const made = Object.assign(document.createElement(tag), values);
  made.append(...children);
  return made;
}

// An element that shows what it showed before is not touched: a selection stays, and nothing is laid out again.
export function setText(shown, text) {
  if (shown.textContent !== text) shown.textContent = text;
}

// As `setText`, of a line that is cut if it is too long.
export function setLine(shown, text) {
  setText(shown, text);
  if (shown.title !== text) shown.title = text;
}

export function setClass(shown, className) {
  if (shown.className !== className) shown.className = className;
}

// These children in this order; nothing is touched if they are.
export function setOrder(parent, wanted) {
  const present = [...parent.children];
  if (wanted.length !== present.length || wanted.some((one, number) => one !== present[number])) parent.replaceChildren(...wanted);
}
