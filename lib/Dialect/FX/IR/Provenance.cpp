// Reading and making the locations that hold a node's origin.

#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Dialect/FX/IR/FXAttributes.h"
#include "opprof/Dialect/FX/IR/NodeSymbols.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace opprof::fx;

bool opprof::fx::isLibraryFrame(StringRef file) {
  if (file.contains("/torch/") || file.starts_with("torch/"))
    return true;
  // Code that was made of text: a person's where it was typed, else a library's
  // (<frozen importlib>, <string> of dataclasses, FX's <eval_with_key>).
  if (file.starts_with("<"))
    return !file.starts_with("<stdin") && !file.starts_with("<ipython");
  // Python's own library comes between where PyTorch decorates with it.
  return file.contains("/lib/python3") && !file.contains("-packages/");
}

static Location getFrameLocation(MLIRContext *context,
                                 const StackFrame &frame) {
  Location place = FileLineColLoc::get(context, frame.file, frame.line, 0);
  if (frame.function.empty())
    return place;
  return NameLoc::get(StringAttr::get(context, frame.function), place);
}

const StackFrame *opprof::fx::getUserFrame(ArrayRef<StackFrame> frames) {
  for (const StackFrame &frame : llvm::reverse(frames))
    if (!isLibraryFrame(frame.file))
      return &frame;
  return &frames.back();
}

Location opprof::fx::getStackLocation(MLIRContext *context,
                                      ArrayRef<StackFrame> frames) {
  if (frames.empty())
    return UnknownLoc::get(context);
  const StackFrame *user = getUserFrame(frames);
  // The innermost frame is the callee of all the others.
  Location stack = getFrameLocation(context, frames.front());
  for (const StackFrame &frame : frames.drop_front())
    stack = CallSiteLoc::get(getFrameLocation(context, frame), stack);
  Location userFrame = FileLineColLoc::get(context, user->file, user->line, 0);
  return FusedLoc::get(context, {userFrame, stack});
}

StackOrigin opprof::fx::getStackOrigin(MLIRContext *context,
                                       ArrayRef<StackFrame> frames) {
  StackOrigin origin{getStackLocation(context, frames), {}, {}};
  if (frames.empty())
    return origin;
  const StackFrame *user = getUserFrame(frames);
  if (!user->code.empty())
    origin.userCode = StringAttr::get(context, user->code);
  bool hasOtherCode = llvm::any_of(frames, [&](const StackFrame &frame) {
    return &frame != user && !frame.code.empty();
  });
  if (hasOtherCode) {
    SmallVector<Attribute> codes;
    for (const StackFrame &frame : frames)
      codes.push_back(StringAttr::get(context, frame.code));
    origin.codes = ArrayAttr::get(context, codes);
  }
  return origin;
}

Location opprof::fx::getNodeLocation(StringAttr name, DictionaryAttr metadata,
                                     Location stack) {
  Location child = stack;
  if (metadata && !metadata.empty()) {
    SmallVector<Location> parts;
    if (auto fused = dyn_cast<FusedLoc>(stack))
      llvm::append_range(parts, fused.getLocations());
    else
      parts.push_back(stack);
    child = FusedLoc::get(parts, metadata, name.getContext());
  }
  if (name.empty())
    return child;
  return NameLoc::get(name, child);
}

Location opprof::fx::getInstanceLocation(Location place, ArrayAttr instance) {
  return FusedLoc::get({place}, instance, place.getContext());
}

ArrayAttr opprof::fx::getInstance(Location location) {
  if (auto fused = dyn_cast<FusedLoc>(location))
    if (auto instance = dyn_cast_or_null<ArrayAttr>(fused.getMetadata()))
      return instance;
  // As files of opprof before November 2026 have it.
  DictionaryAttr metadata = getMetadata(location);
  return metadata ? metadata.getAs<ArrayAttr>("instance") : ArrayAttr();
}

StringRef opprof::fx::getNodeName(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName();
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (isa<NameLoc>(part))
        return getNodeName(part);
  return "";
}

StringRef opprof::fx::getNodeName(Operation *op) {
  StringRef name = getNodeName(op->getLoc());
  if (!name.empty() || !isCall(op))
    return name;
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (auto label = dyn_cast<LabelAttrInterface>(attribute.getValue()))
      return label.getLabel();
  return "";
}

static FusedLoc getFused(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return dyn_cast<FusedLoc>(name.getChildLoc());
  auto fused = dyn_cast<FusedLoc>(location);
  if (!fused || isa_and_nonnull<DictionaryAttr>(fused.getMetadata()))
    return fused;
  // Several nodes became one: the first of them speaks for all.
  for (Location part : fused.getLocations())
    if (isa<NameLoc>(part))
      return getFused(part);
  return fused;
}

DictionaryAttr opprof::fx::getMetadata(Location location) {
  if (FusedLoc fused = getFused(location))
    return dyn_cast_or_null<DictionaryAttr>(fused.getMetadata());
  return {};
}

StringRef opprof::fx::getModulePath(Location location) {
  DictionaryAttr metadata = getMetadata(location);
  if (!metadata)
    return "";
  auto modules = metadata.getAs<ArrayAttr>(kModulesKey);
  if (!modules || modules.empty())
    return "";
  auto innermost = dyn_cast<ArrayAttr>(modules[modules.size() - 1]);
  if (!innermost || innermost.empty())
    return "";
  auto path = dyn_cast<StringAttr>(innermost[0]);
  return path ? path.getValue() : "";
}

FileLineColLoc opprof::fx::getUserFrame(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return getUserFrame(name.getChildLoc());
  if (auto place = dyn_cast<FileLineColLoc>(location))
    return place;
  if (auto fused = dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (FileLineColLoc place = getUserFrame(part))
        return place;
  if (auto call = dyn_cast<CallSiteLoc>(location))
    return getUserFrame(call.getCallee());
  return {};
}

Location opprof::fx::getGraphLocation(Block &block) {
  for (Operation &op : block)
    if (FileLineColLoc line = getUserFrame(op.getLoc()))
      return line;
  return UnknownLoc::get(block.getParent()->getContext());
}

SmallVector<StackFrame> opprof::fx::getStackFrames(Location location) {
  SmallVector<StackFrame> frames;
  // A stack of one frame without a function is the user's frame itself, and
  // nothing is fused where there is no metadata either.
  Location current = location;
  if (FusedLoc fused = getFused(location))
    current = fused.getLocations().back();
  else if (auto name = dyn_cast<NameLoc>(location))
    current = name.getChildLoc();
  else
    return frames;
  auto append = [&](Location frame) {
    StackFrame result;
    if (auto name = dyn_cast<NameLoc>(frame)) {
      result.function = name.getName();
      frame = name.getChildLoc();
    }
    if (auto place = dyn_cast<FileLineColLoc>(frame)) {
      result.file = place.getFilename();
      result.line = place.getLine();
      frames.push_back(result);
    }
  };
  while (auto call = dyn_cast<CallSiteLoc>(current)) {
    append(call.getCallee());
    current = call.getCaller();
  }
  append(current);
  std::reverse(frames.begin(), frames.end());
  DictionaryAttr metadata = getMetadata(location);
  if (frames.empty() || !metadata)
    return frames;
  if (auto codes = metadata.getAs<ArrayAttr>(kCodesKey)) {
    for (auto [frame, code] : llvm::zip(frames, codes))
      if (auto text = dyn_cast<StringAttr>(code))
        frame.code = text;
  } else if (auto code = metadata.getAs<StringAttr>(kCodeKey)) {
    const_cast<StackFrame *>(getUserFrame(frames))->code = code;
  }
  return frames;
}

std::string opprof::fx::getSourceText(Location location) {
  FileLineColLoc place = getUserFrame(location);
  if (!place)
    return "";
  return (place.getFilename().getValue() + ":" + llvm::Twine(place.getLine()))
      .str();
}
