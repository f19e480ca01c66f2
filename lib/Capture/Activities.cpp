// CUPTI's records as the file's own.

#include "Activities.h"

using namespace opprof::capture;

template <typename T> static const T &as(const CUpti_Activity &activity) {
  return reinterpret_cast<const T &>(activity);
}

/// When, in which context and stream, and by which call and node of a graph
/// something was done on a device.
template <typename Record, typename Activity>
static Record deviceRecord(const Activity &a) {
  Record r{};
  r.start = a.start;
  r.end = a.end;
  r.graphNode = a.graphNodeId;
  r.context = a.contextId;
  r.stream = a.streamId;
  r.correlation = a.correlationId;
  r.graph = a.graphId;
  return r;
}

template <typename Activity>
static MemcpyRecord copyRecord(const Activity &a, uint32_t device,
                               uint32_t peer) {
  auto r = deviceRecord<MemcpyRecord>(a);
  r.bytes = a.bytes;
  r.device = device;
  r.peerDevice = peer;
  r.copyKind = a.copyKind;
  r.sourceKind = a.srcKind;
  r.destinationKind = a.dstKind;
  r.flags = a.flags;
  return r;
}

static uint32_t textOf(const char *text, FileWriter &writer) {
  return text ? writer.string(text) : kNone;
}

/// The thread that a record is of, or 0.
template <typename Activity> static uint32_t threadOf(const Activity &a) {
  return a.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? a.objectId.pt.threadId
                                                      : 0;
}

const char *opprof::capture::kernelName(const CUpti_Activity &activity) {
  return as<CUpti_ActivityKernel9>(activity).name;
}

KernelRecord opprof::capture::kernelRecord(const CUpti_Activity &activity,
                                           FileWriter &writer) {
  auto &k = as<CUpti_ActivityKernel9>(activity);
  auto r = deviceRecord<KernelRecord>(k);
  r.localMemoryTotal = k.localMemoryTotal_v2;
  r.name = textOf(k.name, writer);
  r.device = k.deviceId;
  r.grid[0] = k.gridX;
  r.grid[1] = k.gridY;
  r.grid[2] = k.gridZ;
  r.block[0] = k.blockX;
  r.block[1] = k.blockY;
  r.block[2] = k.blockZ;
  r.cluster[0] = k.clusterX;
  r.cluster[1] = k.clusterY;
  r.cluster[2] = k.clusterZ;
  r.staticShared = uint32_t(k.staticSharedMemory);
  r.dynamicShared = uint32_t(k.dynamicSharedMemory);
  r.sharedExecuted = k.sharedMemoryExecuted;
  r.localPerThread = k.localMemoryPerThread;
  r.registers = k.registersPerThread;
  return r;
}

MarkerRecord opprof::capture::markerRecord(const CUpti_Activity &activity,
                                           FileWriter &writer) {
  auto &m = as<CUpti_ActivityMarker2>(activity);
  MarkerRecord r{};
  r.time = m.timestamp;
  r.id = m.id;
  r.flags = m.flags & 7;
  r.name = textOf(m.name, writer);
  r.domain = textOf(m.domain, writer);
  r.thread = threadOf(m);
  return r;
}

MemcpyRecord opprof::capture::memcpyRecord(const CUpti_Activity &activity) {
  if (activity.kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
    auto &c = as<CUpti_ActivityMemcpyPtoP4>(activity);
    return copyRecord(c, c.srcDeviceId, c.dstDeviceId);
  }
  auto &c = as<CUpti_ActivityMemcpy5>(activity);
  return copyRecord(c, c.deviceId, c.deviceId);
}

MemsetRecord opprof::capture::memsetRecord(const CUpti_Activity &activity) {
  auto &m = as<CUpti_ActivityMemset4>(activity);
  auto r = deviceRecord<MemsetRecord>(m);
  r.bytes = m.bytes;
  r.device = m.deviceId;
  r.value = m.value;
  r.memoryKind = m.memoryKind;
  r.flags = m.flags;
  return r;
}

SyncRecord opprof::capture::syncRecord(const CUpti_Activity &activity) {
  auto &s = as<CUpti_ActivitySynchronization>(activity);
  SyncRecord r{};
  r.start = s.start;
  r.end = s.end;
  r.type = uint32_t(s.type);
  r.context = s.contextId;
  r.stream = s.streamId;
  r.correlation = s.correlationId;
  r.event = s.cudaEventId;
  return r;
}

ApiRecord opprof::capture::apiRecord(const CUpti_Activity &activity) {
  auto &a = as<CUpti_ActivityAPI>(activity);
  ApiRecord r{};
  r.start = a.start;
  r.end = a.end;
  r.domain = activity.kind == CUPTI_ACTIVITY_KIND_RUNTIME;
  r.cbid = a.cbid;
  r.thread = a.threadId;
  r.correlation = a.correlationId;
  r.result = a.returnValue;
  r.process = a.processId;
  return r;
}

OverheadRecord opprof::capture::overheadRecord(const CUpti_Activity &activity) {
  auto &o = as<CUpti_ActivityOverhead2>(activity);
  OverheadRecord r{};
  r.start = o.start;
  r.end = o.end;
  r.kind = uint32_t(o.overheadKind);
  r.thread = threadOf(o);
  return r;
}

ExternalIdRecord
opprof::capture::externalIdRecord(const CUpti_Activity &activity) {
  auto &e = as<CUpti_ActivityExternalCorrelation>(activity);
  return {e.externalId, e.correlationId, uint32_t(e.externalKind)};
}

MemoryRecord opprof::capture::memoryRecord(const CUpti_Activity &activity) {
  auto &m = as<CUpti_ActivityMemory3>(activity);
  MemoryRecord r{};
  r.time = m.timestamp;
  r.address = m.address;
  r.bytes = m.bytes;
  r.operation = uint32_t(m.memoryOperationType);
  r.kind = uint32_t(m.memoryKind);
  r.device = m.deviceId;
  r.context = m.contextId;
  r.stream = m.streamId;
  r.correlation = m.correlationId;
  return r;
}
