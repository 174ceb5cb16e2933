/* Amounts of memory as Kubernetes writes them: "8Gi", "512Mi", "2G", "1e9", "1073741824", "1.5Gi". */
#ifndef NVS_QUANTITY_H
#define NVS_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* The same answers as nvshare.kube.quantity gives; false if it is no amount of memory. */
bool nvs_parse_quantity(const char *text, uint64_t *bytes);

#endif
