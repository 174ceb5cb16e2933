/* What the files of the client machine share; no other file includes this. */
#ifndef NVS_CLIENT_PARTS_H
#define NVS_CLIENT_PARTS_H

#include "client/client.h"

/* client.c */
/* Adds to what is to be done at a GPU; bits of enum nvs_turn_do and enum nvs_gpu_do. */
void nvs_client_apply(struct nvs_client *client, int gpu, unsigned todo);

/* connection.c */
void nvs_connection_decide_join(struct nvs_client *client);
void nvs_connection_made(struct nvs_client *client);
void nvs_connection_failed(struct nvs_client *client, int64_t now_ns, enum nvs_absence absence);
void nvs_connection_lost(struct nvs_client *client, int64_t now_ns);
/* Until when we wait for a lost scheduler. */
int64_t nvs_connection_expected_until(const struct nvs_client *client);
void nvs_connection_tick(struct nvs_client *client, int64_t now_ns);

/* keepalive.c */
/* Notes whether something depends on the scheduler now. Called at the end of everything that may change that. */
void nvs_keepalive_update(struct nvs_client *client, int64_t now_ns);
/* True if a PING was due; then it is sent. */
bool nvs_keepalive_ping(struct nvs_client *client, int64_t now_ns);
void nvs_keepalive_tick(struct nvs_client *client, int64_t now_ns);
int64_t nvs_keepalive_next(const struct nvs_client *client);
/* A question was sent. */
void nvs_keepalive_asked(struct nvs_client *client, int64_t now_ns);
/* A message of the scheduler arrived. */
void nvs_keepalive_heard(struct nvs_client *client, int64_t now_ns);

/* receive.c; false if the frame breaks the protocol. */
bool nvs_receive_frame(struct nvs_client *client, const uint8_t *frame, size_t bytes, struct nvs_account *account);

/* frames.c: each adds one frame to `out`. */
void nvs_frames_register(struct nvs_client *client);
/* Whichever frame the GPU owes. */
void nvs_frames_figures(struct nvs_client *client, int gpu, struct nvs_account *account, uint32_t contexts);
void nvs_frames_budget_ask(struct nvs_client *client, int gpu, uint32_t ask, uint64_t need);
void nvs_frames_released(struct nvs_client *client, int gpu, uint64_t lock, bool again);
void nvs_frames_budget_return(struct nvs_client *client, int gpu, uint32_t serial, const struct nvs_account *account);
void nvs_frames_moved(struct nvs_client *client, int gpu, bool to_host, uint64_t bytes, int64_t took_ns);
void nvs_frames_room_made(struct nvs_client *client, int gpu, uint64_t left);
void nvs_frames_working_set(struct nvs_client *client, int gpu, bool is_known, uint64_t bytes);
void nvs_frames_on_host(struct nvs_client *client, int gpu, uint64_t bytes);
void nvs_frames_slowed(struct nvs_client *client, int gpu, uint32_t factor);
void nvs_frames_gpu_time(struct nvs_client *client, int gpu, const struct nvs_look_report *report);
void nvs_frames_mover(struct nvs_client *client, int gpu, uint8_t state);
void nvs_frames_memory_mode(struct nvs_client *client, uint8_t mode);
/* If the process uses collectives and the scheduler knows the message. */
void nvs_frames_collective(struct nvs_client *client);
/* If the environment has one and the scheduler knows the message. */
void nvs_frames_core_limit(struct nvs_client *client);
void nvs_frames_bare(struct nvs_client *client, uint8_t type, int gpu);

#endif
