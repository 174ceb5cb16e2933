"""The text of a scenario, in blocks."""

from dataclasses import dataclass, field


@dataclass
class Block:
    """Comment lines, commands, and the result that is written under them."""

    before: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    result: list[str] = field(default_factory=list)


def parse(text: str) -> tuple[list[Block], list[str]]:
    """The blocks of a scenario, and the lines behind the last one."""
    blocks: list[Block] = []
    block, in_result = Block(), False
    for line in text.splitlines():
        if in_result and line.strip():
            block.result.append(line)
        elif line.strip() == "----":
            in_result = True
        elif not line.strip() or line.startswith("#"):
            if in_result:
                blocks.append(block)
                block, in_result = Block(), False
            block.before.append(line)
        else:
            block.commands.append(line)
    if in_result:
        blocks.append(block)
        block = Block()
    assert not block.commands, f"commands without a result: {block.commands}"
    return blocks, block.before
