/* Questions about budget that threads wait for. The helper's side. */
#ifndef NVS_ASKS_H
#define NVS_ASKS_H

/* Sends what has not been sent. */
void nvs_asks_send(void);
/* There is nobody to answer. */
void nvs_asks_refuse(void);
void nvs_asks_forked(void);

#endif
