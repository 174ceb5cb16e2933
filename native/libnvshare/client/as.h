/* A frame as a struct of its own: its bytes are not aligned. The name of the frame's bytes is `frame`. */
#ifndef NVS_CLIENT_AS_H
#define NVS_CLIENT_AS_H

#include <string.h>

#define AS(type, name) \
    struct type name; \
    memcpy(&name, frame, sizeof name)

#endif
