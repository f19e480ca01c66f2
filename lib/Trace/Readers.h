// The readers behind readTrace, one a format.

#ifndef OPPROF_LIB_TRACE_READERS_H
#define OPPROF_LIB_TRACE_READERS_H

#include "opprof/Trace/Reader.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace opprof::trace {

/// Reads with `read` a file that may be in gzip. Where that is damaged, what
/// comes before is read, and a note says so.
llvm::Expected<std::unique_ptr<Trace>>
readUnpacked(llvm::MemoryBufferRef buffer, const GzipLimits &limits,
             llvm::function_ref<
                 llvm::Expected<std::unique_ptr<Trace>>(llvm::MemoryBufferRef)>
                 read);

/// Whether `data` begins as a capture file does.
bool isCapture(llvm::StringRef data);

/// Reads a capture of opprof itself (docs/formats/capture.md). A file whose
/// writer was killed is read up to its last whole chunk, and a note says so.
llvm::Expected<std::unique_ptr<Trace>> readCapture(llvm::MemoryBufferRef buffer,
                                                   const ReadOptions &options);

/// Whether `data` begins as an SQLite database does.
bool isSQLite(llvm::StringRef data);

/// Reads what Nsight Systems exports as SQLite (docs/formats/nsys.md). Of a
/// table that is damaged, what comes before the damage is read, and a note says
/// so. Beside the file's own bytes it takes some 200 an event.
llvm::Expected<std::unique_ptr<Trace>> readNsys(llvm::MemoryBufferRef buffer,
                                                const ReadOptions &options);

/// Whether a file that begins so, unpacked, is a CSV page of Nsight Compute,
/// or what its command line prints before one.
bool isNcuPage(llvm::StringRef begin);

/// Reads the kernels and counters of a page (docs/formats/ncu.md), which has no
/// timeline: kernels stand one after another, and a note says so. A row that is
/// damaged is left out and counted. It takes some 20 bytes a value and 200 a
/// kernel.
llvm::Expected<std::unique_ptr<Trace>> readNcu(llvm::MemoryBufferRef buffer,
                                               const ReadOptions &options);

/// Reads the Chrome trace that torch.profiler (Kineto) exports, plain or in
/// gzip, into events with exact integer nanoseconds. Fails with what the file
/// is where it is another one that is known.
llvm::Expected<std::unique_ptr<Trace>> readKineto(llvm::MemoryBufferRef buffer,
                                                  const ReadOptions &options);

/// Takes out what stands in the file of a trace again, the same in all that was
/// read of it, and says so in a note. Returns where each of Trace::hostOps, or
/// the one that it repeats, is then; empty where all are where they were.
std::vector<uint32_t> dropRepeatedEvents(Trace &trace);

} // namespace opprof::trace

#endif // OPPROF_LIB_TRACE_READERS_H
