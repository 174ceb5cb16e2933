/* In place of NVIDIA's video encoder: a library with its name and its first function. */
int NvEncodeAPICreateInstance(void *list);
int NvEncodeAPICreateInstance(void *list) { return list == 0; }
