/* Each line of the input, and what the library takes it for: bytes, or `bad`. */
#include <stdio.h>
#include <string.h>

#include "base/quantity.h"

int main(void)
{
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t bytes;
        line[strcspn(line, "\n")] = '\0';
        if (nvs_quantity_parse(line, &bytes))
            printf("%llu\n", (unsigned long long)bytes);
        else
            puts("bad");
    }
    return 0;
}
