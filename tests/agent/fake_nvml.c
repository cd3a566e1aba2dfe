/* NVML of 8 GPUs in the state that the test compiles in: -DSTATE... */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifndef COUNT
#define COUNT 8
#endif
#ifndef INIT
#define INIT 0
#endif
#ifndef HANDLE
#define HANDLE 0
#endif
#ifndef PENDING
#define PENDING 0
#endif
#ifndef FAILED
#define FAILED 0
#endif
#ifndef RETIRE
#define RETIRE 0
#endif
#ifndef ECC
#define ECC 0
#endif
#ifndef MIG
#define MIG 0
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef MODE_CODE
#define MODE_CODE 0
#endif
#ifndef HOLDER
#define HOLDER 0
#endif
#ifndef USED
#define USED (20ull << 30)
#endif
#ifndef CUDA
#define CUDA 13000
#endif
#ifndef MODEL
#define MODEL "NVIDIA H200"
#endif
struct process { unsigned pid; unsigned long long used; unsigned instance, part; };
int nvmlInit_v2(void) {
#ifdef HANGS
    for (;;) pause();
#endif
#ifdef CRASHES
    _exit(3);
#endif
    return INIT;
}
int nvmlDeviceGetCount_v2(unsigned *count) { *count = COUNT; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
#ifdef SLOW
    usleep(SLOW);
#endif
#ifdef STUCK
    for (;index == STUCK;) pause();
#endif
    *handle = (void *)(long)(index + 1); return index == 1 ? HANDLE : 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = CUDA; return 0; }
int nvmlDeviceGetUUID(void *h, char *uuid, unsigned size) { snprintf(uuid, size, "GPU-%ld0c1-aa", (long)h - 1); return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    *handle = (void *)100L;
    return strcmp(uuid, "MIG-4f8d") ? 6 : 0;
}
int nvmlDeviceGetName(void *h, char *name, unsigned size) { snprintf(name, size, "%s", MODEL); return 0; }
int nvmlDeviceGetMemoryInfo(void *h, unsigned long long *sizes) { sizes[0] = 150754820096ull; sizes[1] = sizes[2] = 0; return 0; }
static int second(void *handle) { return (long)handle == 2; }
int nvmlDeviceGetRemappedRows(void *h, unsigned *a, unsigned *b, unsigned *pending, unsigned *failed) {
    *a = 1; *b = 1; *pending = second(h) ? PENDING : 0; *failed = second(h) ? FAILED : 0; return 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void *h, unsigned *is) { *is = second(h) ? RETIRE : 0; return RETIRE ? 0 : 3; }
int nvmlDeviceGetTotalEccErrors(void *h, int type, int counter, unsigned long long *n) {
    *n = second(h) && type == 1 && counter == 0 ? ECC : 0; return 0;
}
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *later) { *now = second(h) ? MIG : 0; *later = 0; return 0; }
int nvmlDeviceGetComputeMode(void *h, unsigned *mode) { *mode = second(h) ? MODE : 0; return second(h) ? MODE_CODE : 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, struct process *found) {
    *count = second(h) && HOLDER ? 1 : 0;
    if (*count) { found->pid = HOLDER; found->used = USED; }
    return 0;
}
