/* A capture in progress; shared by the files capture*.c and graph_memory.c. */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "driver/graph/graph.h"

struct sim_capture {
    uint64_t id;
    CUstreamCaptureMode mode;
    uint64_t thread;                 /* that began it */
    CUstream origin;
    CUgraph graph;
    bool own_graph;                  /* made by the capture, else given by the caller */
    bool invalid;
    struct sim_lane { CUstream stream; CUgraphNode *tips; size_t count, room; } *lanes; /* what each stream's next node follows */
    size_t count, room;
    struct sim_capture *next;        /* among those in progress */
};

extern pthread_mutex_t sim_capture_lock; /* everything below */
extern struct sim_capture *sim_captures; /* in progress */
struct sim_lane *sim_capture_lane(struct sim_capture *capture, CUstream stream);
struct sim_lane *sim_capture_join(struct sim_capture *capture, CUstream stream);
bool sim_lane_add(struct sim_lane *lane, CUgraphNode node);
void sim_lane_set(struct sim_lane *lane, CUgraphNode node);
/* Makes the capture invalid; gives what the call has to return. */
CUresult sim_capture_invalidate(struct sim_capture *capture, CUresult result);
/* The stream's next node. */
CUresult sim_capture_node(CUstream stream, CUgraphNodeType type, CUgraphNode *node);

#endif
