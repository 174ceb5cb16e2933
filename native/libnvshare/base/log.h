/* Lines on stderr: each written by one call, limited in number, and dropped if stderr does not take it at once. */
#ifndef NVS_LOG_H
#define NVS_LOG_H

/* For the user. */
void nvs_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nvs_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Only under NVSHARE_DEBUG. */
void nvs_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
