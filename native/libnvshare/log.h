/* Lines on stderr: few, whole, capped. */
#ifndef NVS_LOG_H
#define NVS_LOG_H

/* Something the user must know. */
void nvs_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nvs_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only under NVSHARE_DEBUG. */
void nvs_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
