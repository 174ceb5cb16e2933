/* Exact: schoolbook arithmetic on decimal digits. strtod would round, accepts hexadecimal and "inf", and reads a comma as the
 * decimal point in some locales. */
#include "base/quantity.h"

#include <string.h>

#include "wire.h"

enum {
    MAX_CHARACTERS = 64,
    MAX_DIGITS = MAX_CHARACTERS + 20, /* 1 Ei adds 19 */
    MAX_EXPONENT = 100,                /* so large that 64 digits cannot bring the value back into range */
};

struct decimal {
    uint8_t digits[MAX_DIGITS]; /* the lowest first */
    int count;
    int behind_point; /* how many of them; negative: zeros are missing at the end */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void push(struct decimal *number, char digit)
{
    memmove(number->digits + 1, number->digits, (size_t)number->count++);
    number->digits[0] = (uint8_t)(digit - '0');
}

static const char *read_digits(const char *text, struct decimal *number)
{
    for (; is_digit(*text); text++)
        push(number, *text);
    if (*text == '.')
        for (text++; is_digit(*text); text++, number->behind_point++)
            push(number, *text);
    return text;
}

static void double_it(struct decimal *number)
{
    uint8_t carry = 0;
    for (int i = 0; i < number->count; i++) {
        carry = (uint8_t)(2 * number->digits[i] + carry);
        number->digits[i] = carry % 10;
        carry /= 10;
    }
    if (carry)
        number->digits[number->count++] = carry;
}

static bool read_exponent(const char *text, int *ten)
{
    int exponent = 0, sign = text[1] == '-' ? -1 : 1;
    text += text[1] == '-' || text[1] == '+' ? 2 : 1;
    if (!is_digit(*text))
        return false;
    for (; is_digit(*text); text++)
        exponent = exponent < MAX_EXPONENT ? 10 * exponent + *text - '0' : exponent;
    *ten = sign * exponent;
    return !*text;
}

/* A suffix is a power of ten and a power of two. */
static bool read_suffix(const char *text, int *ten, int *two)
{
    static const struct { char name[3]; int8_t ten, two; } suffixes[] = {
        {"", 0, 0},  {"n", -9, 0}, {"u", -6, 0}, {"m", -3, 0}, {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},
        {"E", 18, 0}, {"Ki", 0, 10}, {"Mi", 0, 20}, {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
    };
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (!strcmp(text, suffixes[i].name)) {
            *ten = suffixes[i].ten;
            *two = suffixes[i].two;
            return true;
        }
    return (*text == 'e' || *text == 'E') && read_exponent(text, ten);
}

/* Rounded up; at most NVS_MAX_BYTES. */
static uint64_t round_up(const struct decimal *number)
{
    uint64_t whole = 0;
    bool has_fraction = false;
    for (int i = number->count - 1; i >= number->behind_point || i >= 0; i--) {
        uint8_t digit = i >= 0 ? number->digits[i] : 0;
        if (i < number->behind_point)
            has_fraction = has_fraction || digit;
        else if ((whole = 10 * whole + digit) >= NVS_MAX_BYTES)
            return NVS_MAX_BYTES;
    }
    return whole + has_fraction;
}

static bool is_under_one_byte(const struct decimal *number)
{
    for (int i = number->count - 1; i >= 0; i--)
        if (number->digits[i])
            return i < number->behind_point;
    return false;
}

bool nvs_quantity_parse(const char *text, uint64_t *bytes)
{
    struct decimal number = {0};
    int ten = 0, two = 0;
    if (strnlen(text, MAX_CHARACTERS + 1) > MAX_CHARACTERS)
        return false;
    bool is_negative = *text == '-';
    text = read_digits(text + (*text == '-' || *text == '+'), &number);
    if (!number.count || !read_suffix(text, &ten, &two))
        return false;
    while (two--)
        double_it(&number);
    number.behind_point -= ten;
    uint64_t whole = round_up(&number);
    if ((is_negative && whole) || is_under_one_byte(&number))
        return false; /* as a limit this can only be a typing error */
    *bytes = whole;
    return true;
}
