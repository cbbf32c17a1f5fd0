/* A small libnvidia-ml.so.1 that tells what the file named by KAI_FAKE_NVML says, read anew at each question.
 *
 *   init CODE                                       what nvmlInit answers (0 = success)
 *   driver VERSION
 *   device UUID MEMORY_MIB USED_MIB PERCENT MIG NAME…   one line a device; memory -1 = not supported; MIG 0 or 1
 *   process INDEX PID USED_MIB                      USED_MIB -1 = not told
 *   lost INDEX                                      this device no longer answers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { MOST_DEVICES = 16, MOST_PROCESSES = 64 };

typedef struct { char uuid[64]; long long memory_mib, used_mib; int percent, mig, lost; char name[64]; } Device;
typedef struct { unsigned device; unsigned pid; long long used_mib; } Process;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } ProcessInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;

static struct { int init; char driver[64]; int devices, processes; Device device[MOST_DEVICES]; Process process[MOST_PROCESSES]; } world;

static void look(void) {
    char line[512];
    const char *path = getenv("KAI_FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    memset(&world, 0, sizeof world);
    strcpy(world.driver, "0.0");
    while (file && fgets(line, sizeof line, file)) {
        int index;
        Device *device = &world.device[world.devices];
        Process *process = &world.process[world.processes];
        if (sscanf(line, "init %d", &world.init) == 1 || sscanf(line, "driver %63s", world.driver) == 1) continue;
        if (sscanf(line, "lost %d", &index) == 1) { world.device[index].lost = 1; continue; }
        if (world.devices < MOST_DEVICES && sscanf(line, "device %63s %lld %lld %d %d %63[^\n]", device->uuid,
                &device->memory_mib, &device->used_mib, &device->percent, &device->mig, device->name) == 6) world.devices++;
        if (world.processes < MOST_PROCESSES && sscanf(line, "process %u %u %lld", &process->device, &process->pid,
                &process->used_mib) == 3) world.processes++;
    }
    if (file) fclose(file);
}

static Device *at(void *handle) {
    look();
    unsigned long index = (unsigned long)handle - 1;
    return index < (unsigned long)world.devices ? &world.device[index] : NULL;
}

static int put(char *target, unsigned size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(target, text);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; look(); return world.init; }
int nvmlInit_v2(void) { look(); return world.init; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "fake trouble"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { look(); return put(text, size, world.driver); }
int nvmlDeviceGetCount_v2(unsigned *count) { look(); if (world.init) return world.init; *count = (unsigned)world.devices; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    look();
    if (index >= (unsigned)world.devices) return INVALID_ARGUMENT;
    if (world.device[index].lost) return GPU_IS_LOST;
    *handle = (void *)(unsigned long)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { Device *device = at(handle); return device ? put(text, size, device->uuid) : INVALID_ARGUMENT; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { Device *device = at(handle); return device ? put(text, size, device->name) : INVALID_ARGUMENT; }

int nvmlDeviceGetMemoryInfo(void *handle, Memory *memory) {
    Device *device = at(handle);
    if (!device) return INVALID_ARGUMENT;
    if (device->memory_mib < 0) return NOT_SUPPORTED;
    memory->total = (unsigned long long)device->memory_mib << 20;
    memory->used = (unsigned long long)device->used_mib << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, Utilization *rates) {
    Device *device = at(handle);
    if (!device) return INVALID_ARGUMENT;
    if (device->percent < 0) return NOT_SUPPORTED;
    rates->gpu = (unsigned)device->percent;
    rates->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
    Device *device = at(handle);
    if (!device) return INVALID_ARGUMENT;
    *current = *pending = (unsigned)device->mig;
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, ProcessInfo *infos) {
    unsigned found = 0, room = *count;
    if (!at(handle)) return INVALID_ARGUMENT;
    for (int i = 0; i < world.processes; i++) {
        Process *process = &world.process[i];
        if (process->device + 1 != (unsigned long)handle) continue;
        if (infos && found < room) {
            infos[found].pid = process->pid;
            infos[found].used = process->used_mib < 0 ? ~0ULL : (unsigned long long)process->used_mib << 20;
            infos[found].gpu_instance = infos[found].compute_instance = 0xFFFFFFFFu;
        }
        found++;
    }
    *count = found;
    return found > room || (found && !infos) ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void *handle, unsigned *count, ProcessInfo *infos) { (void)handle; (void)infos; *count = 0; return SUCCESS; }
