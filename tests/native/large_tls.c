/* A library with much thread-local data, as in scientific programs. If it is there from the start, each thread has it on its stack. */
__thread char large_tls[12 << 20];
