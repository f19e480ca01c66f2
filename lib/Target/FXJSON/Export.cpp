// Writes the fx dialect as graph JSON: a first walk fills the tables of
// repeated values, a second one writes.

#include "opprof/Dialect/FX/IR/Arguments.h"
#include "opprof/Dialect/FX/IR/FX.h"
#include "opprof/Dialect/FX/IR/GraphAttributes.h"
#include "opprof/Dialect/FX/IR/Names.h"
#include "opprof/Dialect/FX/IR/Provenance.h"
#include "opprof/Target/FXJSON/FXJSON.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

#include <charconv>

using namespace mlir;
using namespace opprof::fx;
using llvm::json::OStream;

namespace {
class Exporter {
public:
  explicit Exporter(ModuleOp module) : module(module) {}

  LogicalResult run(raw_ostream &os);

private:
  LogicalResult collect();
  LogicalResult collectBlock(Block &block);
  LogicalResult check(Operation *op, Attribute argument);
  LogicalResult check(CallOp call);
  unsigned addType(Type type);
  std::optional<unsigned> addStack(Location location);
  std::optional<unsigned> addModules(Location location);

  void writeType(OStream &json, Type type);
  void writeTensor(OStream &json, RankedTensorType type);
  void writeStack(OStream &json, Location location);
  void writeGraph(OStream &json, GraphOp graph);
  void writeNode(OStream &json, NodeOp node, const GraphNames &names);
  void writeBlock(OStream &json, Block &block, const GraphNames &names);
  void writeCall(OStream &json, CallOp call, GraphNames &names);
  void writeOutputs(OStream &json, GraphOp graph, const GraphNames &names);
  void writeArgument(OStream &json, Attribute argument, OperandRange operands,
                     unsigned &nextOperand, const GraphNames &names);
  void writeFromNode(OStream &json, Location location);

  ModuleOp module;
  llvm::MapVector<Type, unsigned> types;
  /// By the parts of a location that make up the stack: its place, and code.
  llvm::MapVector<std::pair<Attribute, Attribute>, Location> stacks;
  llvm::MapVector<Attribute, unsigned> moduleStacks;
};
} // namespace

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static bool isUnknownType(Type type) {
  auto object = dyn_cast<ObjectType>(type);
  return object && object.getPythonType().empty();
}

unsigned Exporter::addType(Type type) {
  auto *found = types.find(type);
  if (found != types.end())
    return found->second;
  // Parts come first, as the format wants it.
  if (auto tuple = dyn_cast<TupleType>(type)) {
    for (Type element : tuple.getTypes())
      addType(element);
  } else if (auto list = dyn_cast<ListType>(type)) {
    for (Type element : list.getElements().getTypes())
      addType(element);
  } else if (auto optional = dyn_cast<OptionalType>(type)) {
    addType(optional.getElement());
  }
  unsigned index = types.size();
  types.insert({type, index});
  return index;
}

static Attribute getMember(DictionaryAttr metadata, StringRef key) {
  return metadata ? metadata.get(key) : Attribute();
}

/// What distinguishes one stack from another: the locations of a node without
/// its name and metadata, and the code of the lines.
static std::pair<Attribute, Attribute> getStackKey(Location location) {
  DictionaryAttr metadata = getMetadata(location);
  Attribute code = getMember(metadata, kCodesKey);
  if (!code)
    code = getMember(metadata, kCodeKey);
  if (auto name = dyn_cast<NameLoc>(location))
    location = name.getChildLoc();
  Attribute place = location;
  if (auto fused = dyn_cast<FusedLoc>(location))
    place = fused.getLocations().back();
  return {place, code};
}

std::optional<unsigned> Exporter::addStack(Location location) {
  auto key = getStackKey(location);
  auto [entry, isNew] = stacks.try_emplace(key, location);
  unsigned index = entry - stacks.begin();
  if (isNew && getStackFrames(location).empty()) {
    stacks.pop_back();
    return std::nullopt;
  }
  return index;
}

std::optional<unsigned> Exporter::addModules(Location location) {
  Attribute modules = getMember(getMetadata(location), kModulesKey);
  if (!modules)
    return std::nullopt;
  unsigned index = moduleStacks.size();
  return moduleStacks.insert({modules, index}).first->second;
}

/// Fails where an argument has a form that the format does not have.
LogicalResult Exporter::check(Operation *op, Attribute argument) {
  LogicalResult result = success();
  walkLeaves(argument, [&](Attribute leaf) {
    bool isKnown =
        isa<ValueAttr, opprof::fx::NoneAttr, EllipsisAttr, BoolAttr, StringAttr,
            IntegerAttr, FloatAttr, ComplexAttr, BigIntAttr, DTypeAttr,
            DeviceAttr, LayoutAttr, MemoryFormatAttr, SymAttr, OpRefAttr,
            ObjectAttr, FlatSymbolRefAttr>(leaf);
    if (!isKnown && succeeded(result))
      result = op->emitOpError() << "has the argument " << leaf
                                 << ", which graph JSON has no form for";
  });
  return result;
}

/// A call is written as FX's own operator for one, which takes a graph that
/// returns a tuple of values.
LogicalResult Exporter::check(CallOp call) {
  auto callee = lookupGraph(call, call.getCalleeAttr());
  auto attributes = callee
                        ? callee->getAttrOfType<DictionaryAttr>(kAttributesAttr)
                        : DictionaryAttr();
  if (!callee || (attributes && attributes.contains(kOutputFormKey)) ||
      !llvm::all_of(callee.getOutput().getArgs(), llvm::IsaPred<ValueAttr>))
    return call.emitOpError()
           << "calls a graph that does not return a tuple of values, which "
              "graph JSON has no form for: run opprof-opt --inline-partitions "
              "first";
  return success();
}

LogicalResult Exporter::collect() {
  for (Operation &op : *module.getBody()) {
    auto graph = dyn_cast<GraphOp>(op);
    if (!graph)
      continue;
    if (failed(collectBlock(graph.getBlock())))
      return failure();
  }
  return success();
}

LogicalResult Exporter::collectBlock(Block &block) {
  for (BlockArgument argument : block.getArguments())
    if (!isUnknownType(argument.getType()))
      addType(argument.getType());
  for (Operation &inner : block) {
    if (auto node = dyn_cast<NodeOp>(inner)) {
      if (!isUnknownType(node.getType()))
        addType(node.getType());
      addStack(node.getLoc());
      addModules(node.getLoc());
      if (failed(check(node, node.getArgs())))
        return failure();
      for (Region &region : node.getBlocks())
        if (failed(collectBlock(region.front())))
          return failure();
    } else if (auto output = dyn_cast<OutputOp>(inner)) {
      if (failed(check(output, output.getArgs())))
        return failure();
    } else if (auto call = dyn_cast<CallOp>(inner)) {
      if (isa<NodeOp>(call->getParentOp()))
        return call.emitOpError()
               << "stands in a block of a node, which graph JSON has no form "
                  "for: run opprof-opt --inline-partitions first";
      if (failed(check(call)))
        return failure();
      addType(TupleType::get(call.getContext(), call.getResultTypes()));
      addStack(call.getLoc());
    } else {
      return inner.emitOpError()
             << "has no form in graph JSON: only fx.node does";
    }
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// The shortest text that reads back as the same double, with a point or
/// exponent so that it stays a float.
static void writeDouble(OStream &json, double value) {
  if (!std::isfinite(value)) {
    json.object([&] {
      json.attribute("float", std::isnan(value) ? "nan"
                              : value > 0       ? "inf"
                                                : "-inf");
    });
    return;
  }
  char buffer[64];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  StringRef digits(buffer, result.ptr - buffer);
  bool isWhole = digits.find_first_of(".e") == StringRef::npos;
  json.rawValue(
      [&](raw_ostream &os) { os << digits << (isWhole ? ".0" : ""); });
}

/// An attribute that came from plain JSON.
static void writeJSON(OStream &json, Attribute value) {
  llvm::TypeSwitch<Attribute>(value)
      .Case<BoolAttr>([&](BoolAttr flag) { json.value(flag.getValue()); })
      .Case<IntegerAttr>([&](IntegerAttr number) {
        json.value(number.getValue().getSExtValue());
      })
      .Case<FloatAttr>([&](FloatAttr number) {
        writeDouble(json, number.getValueAsDouble());
      })
      .Case<StringAttr>([&](StringAttr text) { json.value(text.getValue()); })
      .Case<ArrayAttr>([&](ArrayAttr array) {
        json.array([&] {
          for (Attribute element : array)
            writeJSON(json, element);
        });
      })
      .Case<DictionaryAttr>([&](DictionaryAttr members) {
        json.object([&] {
          for (NamedAttribute member : members) {
            json.attributeBegin(member.getName());
            writeJSON(json, member.getValue());
            json.attributeEnd();
          }
        });
      })
      .Default([&](Attribute) { json.value(nullptr); });
}

template <typename Write>
static void writeMember(OStream &json, StringRef key, Write write) {
  json.attributeBegin(key);
  write();
  json.attributeEnd();
}

static void writeConstant(OStream &json, GraphOp graph, unsigned index) {
  if (Attribute constant = graph.getArgAttr(index, kConstantAttr))
    writeMember(json, "constant", [&] { writeJSON(json, constant); });
}

/// Writes an element of an array on a line of its own.
template <typename Write>
static void writeLine(OStream &json, StringRef indent, Write write) {
  json.rawValue([&](raw_ostream &os) {
    os << "\n" << indent;
    OStream line(os);
    write(line);
  });
}

template <typename Range, typename Write>
static void writeLines(OStream &json, StringRef key, Range &&range,
                       StringRef indent, Write write) {
  json.attributeArray(key, [&] {
    for (auto &&element : range)
      writeLine(json, indent, [&](OStream &line) { write(line, element); });
  });
}

/// A size or stride: a number or a symbol's expression.
static void writeExtent(OStream &json, Attribute extent) {
  if (auto symbol = dyn_cast<SymAttr>(extent))
    json.value(symbol.getValue());
  else
    writeJSON(json, extent);
}

void Exporter::writeTensor(OStream &json, RankedTensorType type) {
  auto info = dyn_cast_or_null<TensorInfoAttr>(type.getEncoding());
  json.attribute("dtype", getDTypeName(type.getElementType()));
  json.attributeArray("shape", [&] {
    for (auto [index, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size))
        json.value(size);
      else if (info && info.getDims())
        writeExtent(json, info.getDims()[index]);
      else
        json.value("?");
    }
  });
  bool isStrided = !info || !info.getLayout();
  auto strides = TensorInfoAttr::getStaticStrides(type);
  if (info && info.getStrides()) {
    json.attributeArray("stride", [&] {
      for (Attribute stride : info.getStrides())
        writeExtent(json, stride);
    });
  } else if (!isStrided) {
    json.attributeArray("stride", [] {});
  } else if (strides) {
    json.attributeArray("stride", [&] {
      for (int64_t stride : *strides)
        json.value(stride);
    });
  }
  json.attribute("device", info ? info.getDevice() : StringRef("cpu"));
  if (!info)
    return;
  if (info.getLayout())
    json.attribute("layout", info.getLayout().getValue());
  if (info.getStorageOffset())
    writeMember(json, "storage_offset",
                [&] { writeExtent(json, info.getStorageOffset()); });
  if (info.getRequiresGrad())
    json.attribute("requires_grad", true);
  if (info.getSubclass())
    json.attribute("subclass", info.getSubclass().getValue());
}

void Exporter::writeType(OStream &json, Type type) {
  if (isa<opprof::fx::NoneType>(type)) {
    json.value("none");
    return;
  }
  if (auto scalar = dyn_cast<ScalarType>(type)) {
    json.value(scalar.getName());
    return;
  }
  auto writeElements = [&](StringRef key, ArrayRef<Type> elements) {
    json.attributeArray(key, [&] {
      for (Type element : elements)
        json.value(types.find(element)->second);
    });
  };
  json.object([&] {
    llvm::TypeSwitch<Type>(type)
        .Case<RankedTensorType>([&](RankedTensorType tensor) {
          json.attributeObject("tensor", [&] { writeTensor(json, tensor); });
        })
        .Case<TupleType>(
            [&](TupleType tuple) { writeElements("tuple", tuple.getTypes()); })
        .Case<ListType>([&](ListType list) {
          writeElements("list", list.getElements().getTypes());
        })
        .Case<OptionalType>([&](OptionalType optional) {
          json.attribute("optional", types.find(optional.getElement())->second);
        })
        .Case<SymIntType>([&](SymIntType symbol) {
          json.attribute("symint", symbol.getExpression());
        })
        .Case<SymFloatType>([&](SymFloatType symbol) {
          json.attribute("symfloat", symbol.getExpression());
        })
        .Case<SymBoolType>([&](SymBoolType symbol) {
          json.attribute("symbool", symbol.getExpression());
        })
        .Case<ObjectType>([&](ObjectType object) {
          json.attribute("object", object.getPythonType());
        })
        .Default([&](Type other) {
          std::string text;
          llvm::raw_string_ostream(text) << other;
          json.attribute("object", text);
        });
  });
}

void Exporter::writeStack(OStream &json, Location location) {
  json.array([&] {
    for (const StackFrame &frame : getStackFrames(location)) {
      json.object([&] {
        json.attribute("file", frame.file);
        json.attribute("line", frame.line);
        if (!frame.function.empty())
          json.attribute("function", frame.function);
        if (!frame.code.empty())
          json.attribute("code", frame.code);
      });
    }
  });
}

void Exporter::writeArgument(OStream &json, Attribute argument,
                             OperandRange operands, unsigned &nextOperand,
                             const GraphNames &names) {
  auto writeAll = [&](ArrayRef<Attribute> elements) {
    json.array([&] {
      for (Attribute element : elements)
        writeArgument(json, element, operands, nextOperand, names);
    });
  };
  auto writeForm = [&](StringRef key, auto write) {
    json.object([&] { writeMember(json, key, write); });
  };
  auto writeText = [&](StringRef key, StringRef text) {
    json.object([&] { json.attribute(key, text); });
  };
  llvm::TypeSwitch<Attribute>(argument)
      .Case<ValueAttr>([&](ValueAttr) {
        writeText("node", names.lookup(operands[nextOperand++]));
      })
      .Case<ArrayAttr>([&](ArrayAttr list) { writeAll(list.getValue()); })
      .Case<TupleAttr>([&](TupleAttr tuple) {
        writeForm("tuple", [&] { writeAll(tuple.getElements().getValue()); });
      })
      .Case<DictAttr>([&](DictAttr dict) {
        writeForm("dict", [&] {
          json.array([&] {
            for (auto [key, value] :
                 llvm::zip(dict.getKeys(), dict.getValues()))
              writeAll({key, value});
          });
        });
      })
      .Case<SliceAttr>([&](SliceAttr slice) {
        writeForm("slice", [&] {
          writeAll({slice.getStart(), slice.getStop(), slice.getStep()});
        });
      })
      .Case<EllipsisAttr>([&](EllipsisAttr) {
        json.object([&] { json.attribute("ellipsis", true); });
      })
      .Case<BigIntAttr>(
          [&](BigIntAttr number) { writeText("int", number.getValue()); })
      .Case<ComplexAttr>([&](ComplexAttr number) {
        writeForm("complex", [&] {
          json.array([&] {
            writeDouble(json, number.getReal().getValueAsDouble());
            writeDouble(json, number.getImaginary().getValueAsDouble());
          });
        });
      })
      .Case<DTypeAttr>(
          [&](DTypeAttr dtype) { writeText("dtype", dtype.getValue()); })
      .Case<DeviceAttr>(
          [&](DeviceAttr device) { writeText("device", device.getValue()); })
      .Case<LayoutAttr>(
          [&](LayoutAttr layout) { writeText("layout", layout.getValue()); })
      .Case<MemoryFormatAttr>([&](MemoryFormatAttr format) {
        writeText("memory_format", format.getValue());
      })
      .Case<SymAttr>(
          [&](SymAttr symbol) { writeText("sym", symbol.getValue()); })
      .Case<OpRefAttr>([&](OpRefAttr op) { writeText("op", op.getValue()); })
      .Case<FlatSymbolRefAttr>([&](FlatSymbolRefAttr symbol) {
        writeText("graph", symbol.getValue());
      })
      .Case<ObjectAttr>([&](ObjectAttr object) {
        writeForm("object", [&] {
          json.object([&] {
            json.attribute("type", object.getPythonType());
            json.attribute("repr", object.getRepr());
          });
        });
      })
      .Default([&](Attribute other) { writeJSON(json, other); });
}

void Exporter::writeFromNode(OStream &json, Location location) {
  auto chain = dyn_cast_or_null<ArrayAttr>(
      getMember(getMetadata(location), kFromNodeKey));
  if (!chain)
    return;
  json.attributeArray("from_node", [&] {
    for (Attribute element : chain) {
      auto members = dyn_cast<DictionaryAttr>(element);
      if (!members)
        continue;
      json.object([&] {
        // The document's order first, then what else there may be.
        StringRef order[] = {"name", "graph", "pass", "action"};
        for (StringRef key : order)
          if (Attribute value = members.get(key))
            writeMember(json, key, [&] { writeJSON(json, value); });
        for (NamedAttribute member : members)
          if (!llvm::is_contained(order, member.getName().getValue()))
            writeMember(json, member.getName(),
                        [&] { writeJSON(json, member.getValue()); });
      });
    }
  });
}

void Exporter::writeNode(OStream &json, NodeOp node, const GraphNames &names) {
  DictionaryAttr metadata = getMetadata(node.getLoc());
  json.object([&] {
    json.attribute("name", names.lookup(node.getResult()));
    json.attribute("op", stringifyNodeKind(node.getKind()));
    json.attribute("target", node.getTarget());
    unsigned nextOperand = 0, numPositional = node.getNumPositional();
    ArrayRef<Attribute> args = node.getArgs().getValue();
    json.attributeArray("args", [&] {
      for (Attribute argument : args.take_front(numPositional))
        writeArgument(json, argument, node.getOperands(), nextOperand, names);
    });
    json.attributeObject("kwargs", [&] {
      for (auto [index, argument] :
           llvm::enumerate(args.drop_front(numPositional)))
        writeMember(json, cast<StringAttr>((*node.getKwargNames())[index]),
                    [&] {
                      writeArgument(json, argument, node.getOperands(),
                                    nextOperand, names);
                    });
    });
    if (!node.getBlocks().empty())
      json.attributeArray("blocks", [&] {
        for (Region &block : node.getBlocks())
          writeBlock(json, block.front(), names);
      });
    if (!isUnknownType(node.getType()))
      json.attribute("type", types.find(node.getType())->second);
    if (auto stack = addStack(node.getLoc()))
      json.attribute("stack", *stack);
    if (auto modules = addModules(node.getLoc()))
      json.attribute("modules", *modules);
    for (StringRef key : {kSeqNrKey, kOriginalAtenKey, kTorchFunctionKey})
      if (Attribute value = getMember(metadata, key))
        writeMember(json, key, [&] { writeJSON(json, value); });
    writeFromNode(json, node.getLoc());
  });
}

void Exporter::writeBlock(OStream &json, Block &block,
                          const GraphNames &names) {
  json.object([&] {
    json.attributeArray("inputs", [&] {
      for (BlockArgument argument : block.getArguments())
        json.object([&] {
          json.attribute("name", names.lookup(argument));
          if (!isUnknownType(argument.getType()))
            json.attribute("type", types.find(argument.getType())->second);
        });
    });
    json.attributeArray("nodes", [&] {
      for (NodeOp node : block.getOps<NodeOp>())
        writeNode(json, node, names);
    });
    json.attributeArray("outputs", [&] {
      auto output = cast<OutputOp>(block.getTerminator());
      unsigned nextOperand = 0;
      for (Attribute value : output.getArgs())
        writeArgument(json, value, output.getOperands(), nextOperand, names);
    });
  });
}

/// A call of a partition, as an invoke_subgraph node, and a getitem node for
/// each of its results.
void Exporter::writeCall(OStream &json, CallOp call, GraphNames &names) {
  StringRef label = getNodeName(call);
  std::string name =
      names.claim(((label.empty() ? call.getCallee() : label) + "_call").str())
          .str();
  auto writeNode = [&](StringRef nodeName, StringRef target, Type type,
                       llvm::function_ref<void(OStream &)> writeArgs) {
    writeLine(json, "    ", [&](OStream &line) {
      line.object([&] {
        line.attribute("name", nodeName);
        line.attribute("op", "call_function");
        line.attribute("target", target);
        line.attributeArray("args", [&] { writeArgs(line); });
        line.attributeObject("kwargs", [] {});
        if (!isUnknownType(type))
          line.attribute("type", types.find(type)->second);
        if (auto stack = addStack(call.getLoc()))
          line.attribute("stack", *stack);
      });
    });
  };
  auto writeReference = [](OStream &line, StringRef key, StringRef text) {
    line.object([&] { line.attribute(key, text); });
  };
  writeNode(name, "higher_order.invoke_subgraph",
            TupleType::get(call.getContext(), call.getResultTypes()),
            [&](OStream &line) {
              writeReference(line, "graph", call.getCallee());
              line.value(call.getCallee());
              for (Value operand : call.getOperands())
                writeReference(line, "node", names.lookup(operand));
            });
  for (auto [index, result] : llvm::enumerate(call.getResults()))
    writeNode(names.lookup(result), "operator.getitem", result.getType(),
              [&](OStream &line) {
                writeReference(line, "node", name);
                line.value(int64_t(index));
              });
}

void Exporter::writeOutputs(OStream &json, GraphOp graph,
                            const GraphNames &names) {
  OutputOp output = graph.getOutput();
  unsigned nextOperand = 0;
  auto indices = llvm::seq<size_t>(0, output.getArgs().size());
  writeLines(json, "outputs", indices, "    ", [&](OStream &line, size_t i) {
    line.object([&] {
      writeMember(line, "value", [&] {
        writeArgument(line, output.getArgs()[i], output.getOperands(),
                      nextOperand, names);
      });
      DictionaryAttr signature;
      if (output.getSignature())
        signature = dyn_cast<DictionaryAttr>((*output.getSignature())[i]);
      auto kind = dyn_cast_or_null<StringAttr>(getMember(signature, "kind"));
      line.attribute("kind", kind ? kind.getValue() : "user_output");
      if (auto target =
              dyn_cast_or_null<StringAttr>(getMember(signature, "target")))
        line.attribute("target", target.getValue());
    });
  });
}

void Exporter::writeGraph(OStream &json, GraphOp graph) {
  GraphNames names(graph);
  json.object([&] {
    json.attribute("name", graph.getSymName());
    if (graph.getStage())
      json.attribute("stage", *graph.getStage());
    writeLines(json, "inputs", graph.getBlock().getArguments(), "    ",
               [&](OStream &line, BlockArgument argument) {
                 unsigned index = argument.getArgNumber();
                 line.object([&] {
                   line.attribute("name", names.lookup(argument));
                   if (!isUnknownType(argument.getType()))
                     line.attribute("type",
                                    types.find(argument.getType())->second);
                   line.attribute("kind", graph.getInputKind(index));
                   if (auto target = graph.getArgAttrOfType<StringAttr>(
                           index, FXDialect::kTargetAttr))
                     line.attribute("target", target.getValue());
                   if (auto persistent = graph.getArgAttrOfType<BoolAttr>(
                           index, FXDialect::kPersistentAttr))
                     line.attribute("persistent", persistent.getValue());
                   writeConstant(line, graph, index);
                   writeFromNode(line, argument.getLoc());
                 });
               });
    json.attributeArray("nodes", [&] {
      for (Operation &op : graph.getBlock().without_terminator()) {
        if (auto call = dyn_cast<CallOp>(op))
          writeCall(json, call, names);
        else
          writeLine(json, "    ", [&](OStream &line) {
            writeNode(line, cast<NodeOp>(op), names);
          });
      }
    });
    writeOutputs(json, graph, names);
    auto writeAttribute = [&](StringRef key, StringRef attributeName,
                              bool isAlwaysWritten) {
      Attribute value = graph->getDiscardableAttr(attributeName);
      if (value)
        writeMember(json, key, [&] { writeJSON(json, value); });
      else if (isAlwaysWritten)
        json.attributeObject(key, [] {});
    };
    writeAttribute("range_constraints", kRangeConstraintsAttr, true);
    writeAttribute("in_spec", kInSpecAttr, false);
    writeAttribute("out_spec", kOutSpecAttr, false);
    writeAttribute("attributes", kAttributesAttr, true);
  });
}

LogicalResult Exporter::run(raw_ostream &os) {
  if (failed(collect()))
    return failure();
  OStream json(os);
  json.object([&] {
    json.attribute("opprof_graph_version", 1);
    if (Attribute producer = module->getDiscardableAttr(kProducerAttr))
      writeMember(json, "producer", [&] { writeJSON(json, producer); });
    writeLines(json, "types", types, "  ", [&](OStream &line, auto &entry) {
      writeType(line, entry.first);
    });
    writeLines(json, "stacks", stacks, "  ", [&](OStream &line, auto &entry) {
      writeStack(line, entry.second);
    });
    writeLines(
        json, "modules", moduleStacks, "  ", [&](OStream &line, auto &stack) {
          line.array([&] {
            auto list = dyn_cast<ArrayAttr>(stack.first);
            for (Attribute element :
                 list ? list.getValue() : ArrayRef<Attribute>()) {
              auto entry = dyn_cast<ArrayAttr>(element);
              if (!entry || entry.size() != 2)
                continue;
              line.object([&] {
                writeMember(line, "path", [&] { writeJSON(line, entry[0]); });
                writeMember(line, "type", [&] { writeJSON(line, entry[1]); });
              });
            }
          });
        });
    writeLines(json, "graphs", module.getOps<GraphOp>(), "  ",
               [&](OStream &line, GraphOp graph) { writeGraph(line, graph); });
  });
  os << "\n";
  return success();
}

LogicalResult opprof::fx::exportGraphJSON(ModuleOp module, raw_ostream &os) {
  return Exporter(module).run(os);
}
