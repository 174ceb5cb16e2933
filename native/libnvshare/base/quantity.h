/* Amounts of memory as Kubernetes writes them: "8Gi", "512Mi", "2G", "1e9", "1073741824", "1.5Gi". */
#ifndef NVS_QUANTITY_H
#define NVS_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* Gives the same answers as nvshare's parser in Python; false if the text is not an amount of memory. */
bool nvs_quantity_parse(const char *text, uint64_t *bytes);

#endif
