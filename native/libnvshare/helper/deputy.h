/* A second thread, which answers the scheduler while the helper waits for the driver. */
#ifndef NVS_DEPUTY_H
#define NVS_DEPUTY_H

/* The helper thread has begun: the conversation is its own. */
void nvs_deputy_helper_began(void);
/* Around everything in the helper's step that calls the driver. In between, the helper touches neither the client machine nor the
 * connection. */
void nvs_deputy_driver_begin(void);
void nvs_deputy_driver_end(void);
void nvs_deputy_forked(void);

#endif
