// What kernels' bodies and calls' arguments prove of launches, on programs
// where sizes, dtypes and PyTorch's records leave it open or are wrong.

#include "opprof/Target/InductorCode/FXReadable.h"
#include "opprof/Target/InductorCode/Launches.h"

#include "gtest/gtest.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

namespace {
struct Program {
  Program(const std::string &code, const std::string &body,
          Provenance provenance = {}) {
    Expected<GraphView> read =
        readFXReadable("class M(torch.nn.Module):\n" + body, "g.py");
    EXPECT_TRUE(bool(read)) << toString(read.takeError());
    Expected<WrapperProgram> wrapper = readWrapper(code, "output_code.py");
    EXPECT_TRUE(bool(wrapper)) << toString(wrapper.takeError());
    map = buildLaunchMap({*wrapper, &*read, &provenance, "g"});
  }

  std::string nodes(size_t launch) const {
    std::string out;
    for (const LaunchNode &node : map.launches[launch].nodes)
      out += (out.empty() ? "" : " ") + node.name + (node.continued ? "~" : "");
    return out;
  }
  bool isHigh(size_t launch) const {
    for (const LaunchNode &node : map.launches[launch].nodes)
      if (node.confidence != Confidence::High)
        return false;
    return !map.launches[launch].nodes.empty();
  }

  LaunchMap map;
};

std::string tritonKernel(const std::string &name, const std::string &parameters,
                         const std::string &signature,
                         const std::string &body) {
  return name + " = async_compile.triton('" + name +
         "', '''\n@triton_heuristics.pointwise(triton_meta={'signature': {" +
         signature +
         ", 'xnumel': 'i32', 'XBLOCK': 'constexpr'}})\n"
         "@triton.jit\ndef " +
         name + "(" + parameters +
         ", xnumel, XBLOCK : tl.constexpr):\n"
         "    xoffset = tl.program_id(0) * XBLOCK\n"
         "    xindex = xoffset + tl.arange(0, XBLOCK)[:]\n"
         "    xmask = xindex < xnumel\n"
         "    x0 = xindex\n" +
         body + "''', device_str='cuda')\n";
}

std::string cppKernel(StringRef name, StringRef types, StringRef parameters,
                      StringRef lines) {
  return (name + " = async_compile.cpp_pybinding([" + types +
          "], r'''\nextern \"C\"  void  kernel(" + parameters + ")\n{\n" +
          lines + "}\n''')\n")
      .str();
}

std::string loop(const std::string &variable, int size) {
  return "for(int64_t " + variable + "=static_cast<int64_t>(0L); " + variable +
         "<static_cast<int64_t>(" + std::to_string(size) + "L); " + variable +
         "+=static_cast<int64_t>(1L)) {\n";
}

std::string call(const std::string &body) {
  return "async_compile.wait(globals())\ndef call(args):\n" + body;
}

constexpr StringLiteral kPointers =
    "'in_ptr0': '*fp32', 'in_ptr1': '*fp32', 'out_ptr0': '*fp32', "
    "'out_ptr1': '*fp32'";

// Both results have one size and dtype: only the stores tell them apart.
TEST(LaunchProof, StoresSayWhichBufferHoldsWhichNode) {
  std::string kernel = tritonKernel(
      "triton_poi_0", "in_ptr0, in_ptr1, out_ptr0, out_ptr1", kPointers.str(),
      "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
      "    tmp1 = tl.load(in_ptr1 + (x0), xmask)\n"
      "    tmp2 = tmp0 + tmp1\n"
      "    tmp3 = tmp0 * tmp1\n"
      "    tl.store(out_ptr0 + (x0), tmp3, xmask)\n"
      "    tl.store(out_ptr1 + (x0), tmp2, xmask)\n");
  std::string later =
      tritonKernel("triton_poi_1", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tmp1 = libdevice.tanh(tmp0)\n"
                   "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n");
  Program program(
      kernel + later +
          call("    a, b = args\n"
               "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(a, b, buf0, buf1, 4, stream=stream0)\n"
               "    buf2 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_1.run(buf0, buf2, 4, stream=stream0)\n"
               "    return (buf1, buf2)\n"),
      "    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
      "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(a, b)\n"
      "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(a, b)\n"
      "        tanh: \"f32[4]\" = torch.ops.aten.tanh.default(add)\n"
      "        tanh_1: \"f32[4]\" = torch.ops.aten.tanh.default(mul)\n"
      "        return (add, tanh_1, tanh)\n");
  EXPECT_EQ(program.nodes(0), "add mul");
  EXPECT_EQ(program.nodes(1), "tanh_1");
  EXPECT_TRUE(program.isHigh(0) && program.isHigh(1));
}

// Two products of one value, whose gradients are summed over pairs: Inductor
// spells such a sum out, and only its elements say which of them it is.
TEST(LaunchProof, ShortReductionsAreSpelledOut) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (2*x0), xmask)\n"
                   "    tmp1 = tl.load(in_ptr0 + (1 + 2*x0), xmask)\n"
                   "    tmp2 = tmp0 + tmp1\n"
                   "    tmp3 = tl.full([1], 0.5, tl.float32)\n"
                   "    tmp4 = tmp2 * tmp3\n"
                   "    tl.store(out_ptr0 + (x0), tmp4, xmask)\n");
  Program program(
      kernel +
          call("    a, b = args\n"
               "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(b, buf0, 4, stream=stream0)\n"
               "    buf1 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(a, buf1, 4, stream=stream0)\n"
               "    return (buf1, buf0)\n"),
      "    def forward(self, a: \"f32[4, 2]\", b: \"f32[4, 2]\"):\n"
      "        mean: \"f32[4]\" = torch.ops.aten.mean.dim(a, [1])\n"
      "        mean_1: \"f32[4]\" = torch.ops.aten.mean.dim(b, [1])\n"
      "        amax: \"f32[4]\" = torch.ops.aten.amax.default(b, [1])\n"
      "        return (mean, mean_1, amax)\n");
  EXPECT_EQ(program.nodes(0), "mean_1");
  EXPECT_EQ(program.nodes(1), "mean");
  EXPECT_TRUE(program.isHigh(0) && program.isHigh(1));
}

// Two halves of one input: what is read is a matter of offsets.
TEST(LaunchProof, OffsetsSayWhichPartIsRead) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (4 + x0), xmask)\n"
                   "    tmp1 = tl.sigmoid(tmp0)\n"
                   "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n");
  std::string graph =
      "    def forward(self, a: \"f32[8]\"):\n"
      "        slice_1: \"f32[4]\" = torch.ops.aten.slice.Tensor(a, 0, 0, 4)\n"
      "        slice_2: \"f32[4]\" = torch.ops.aten.slice.Tensor(a, 0, 4, 8)\n"
      "        sigmoid: \"f32[4]\" = torch.ops.aten.sigmoid.default(slice_1)\n"
      "        sigmoid_1: \"f32[4]\" = "
      "torch.ops.aten.sigmoid.default(slice_2)\n"
      "        return (sigmoid, sigmoid_1)\n";
  std::string before =
      "    a, = args\n"
      "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n";
  Program program(kernel + call(before + "    triton_poi_0.run(a, buf0, 4, "
                                         "stream=stream0)\n"
                                         "    return (buf0, )\n"),
                  graph);
  EXPECT_EQ(program.nodes(0), "sigmoid_1");
  // Records that dataflow refutes are dropped.
  Provenance wrong;
  wrong.kernelToPost["triton_poi_0:1"] = {"sigmoid", "sigmoid_1"};
  Program recorded(
      kernel + call(before + "    # [Provenance debug handles] triton_poi_0:1\n"
                             "    triton_poi_0.run(a, buf0, 4, "
                             "stream=stream0)\n"
                             "    return (buf0, )\n"),
      graph, std::move(wrong));
  EXPECT_EQ(recorded.nodes(0), "sigmoid_1");
  EXPECT_EQ(recorded.map.launches[0].listedOnly,
            std::vector<std::string>{"sigmoid"});
}

constexpr StringLiteral kConvolutions =
    "    def forward(self, x: \"f32[1, 2, 4, 4]\", w: \"f32[2, 2, 1, 1]\", "
    "b: \"f32[2]\"):\n"
    "        convolution: \"f32[1, 2, 4, 4]\" = "
    "torch.ops.aten.convolution.default(x, w, b, [1, 1], [0, 0], [1, 1], "
    "False, [0, 0], 1)\n"
    "        convolution_1: \"f32[1, 2, 4, 4]\" = "
    "torch.ops.aten.convolution.default(convolution, w, None, [1, 1], [0, 0], "
    "[1, 1], False, [0, 0], 1)\n"
    "        relu: \"f32[1, 2, 4, 4]\" = "
    "torch.ops.aten.relu.default(convolution)\n"
    "        return (convolution_1, relu)\n";

// PyTorch's record names the call before too, whose result goes in.
TEST(LaunchProof, ACallListsItsOwnOperatorOnly) {
  Provenance provenance;
  provenance.kernelToPost["extern_kernels.convolution:1"] = {"convolution"};
  provenance.kernelToPost["extern_kernels.convolution:2"] = {"convolution",
                                                             "convolution_1"};
  std::string code =
      call("    x, w, b = args\n"
           "    # [Provenance debug handles] extern_kernels.convolution:1\n"
           "    buf0 = extern_kernels.convolution(x, w, b, stride=(1, 1))\n"
           "    assert_size_stride(buf0, (1, 2, 4, 4), (32, 16, 4, 1))\n"
           "    # [Provenance debug handles] extern_kernels.convolution:2\n"
           "    buf1 = extern_kernels.convolution(buf0, w, stride=(1, 1), "
           "bias=None)\n"
           "    assert_size_stride(buf1, (1, 2, 4, 4), (32, 16, 4, 1))\n"
           "    return (buf1, buf0)\n");
  Program program(code, kConvolutions.str(), std::move(provenance));
  EXPECT_EQ(program.nodes(0), "convolution");
  EXPECT_EQ(program.nodes(1), "convolution_1");
  EXPECT_EQ(program.map.launches[1].flops, 2u * 32 * 2);
  EXPECT_EQ(program.map.launches[1].bytesRead, 4u * (32 + 4));
  EXPECT_TRUE(program.isHigh(0) && program.isHigh(1));
}

// The call leaves the bias to the kernel behind it.
TEST(LaunchProof, AKernelFinishesAConvolutionWithoutBias) {
  std::string kernel = tritonKernel(
      "triton_poi_0", "in_ptr0, in_ptr1, out_ptr0, out_ptr1", kPointers.str(),
      "    x1 = ((xindex // 16) % 2)\n"
      "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
      "    tmp1 = tl.load(in_ptr1 + (x1), xmask)\n"
      "    tmp2 = tmp0 + tmp1\n"
      "    tmp3 = tl.full([1], 0, tl.int32)\n"
      "    tmp4 = triton_helpers.maximum(tmp3, tmp2)\n"
      "    tl.store(out_ptr0 + (x0), tmp2, xmask)\n"
      "    tl.store(out_ptr1 + (x0), tmp4, xmask)\n");
  std::string tensor = "empty_strided_cuda((1, 2, 4, 4), (32, 16, 4, 1), "
                       "torch.float32)\n";
  Program program(
      kernel +
          call("    x, w, b = args\n"
               "    buf0 = extern_kernels.convolution(x, w, stride=(1, 1), "
               "bias=None)\n"
               "    assert_size_stride(buf0, (1, 2, 4, 4), (32, 16, 4, 1))\n"
               "    buf1 = " +
               tensor + "    buf2 = " + tensor +
               "    triton_poi_0.run(buf0, b, buf1, buf2, 32, "
               "stream=stream0)\n"
               "    buf3 = extern_kernels.convolution(buf1, w, "
               "stride=(1, 1), bias=None)\n"
               "    assert_size_stride(buf3, (1, 2, 4, 4), (32, 16, 4, 1))\n"
               "    return (buf3, buf2)\n"),
      kConvolutions.str());
  EXPECT_EQ(program.nodes(0), "convolution");
  EXPECT_EQ(program.nodes(1), "convolution~ relu");
  EXPECT_EQ(program.nodes(2), "convolution_1");
  EXPECT_EQ(program.map.launches[1].flops, 32u);
}

// C++: vectors and their tail, an accumulator over two loops, memory of its
// own that it writes before it reads.
TEST(LaunchProof, CppLoopsAreRead) {
  std::string kernel =
      "k = async_compile.cpp_pybinding(['float*', 'const float*', 'float*'], "
      "r'''\nextern \"C\"  void  kernel(float* in_out_ptr0, const float* "
      "in_ptr0, float* out_ptr0)\n{\n"
      "  for(int64_t x0=static_cast<int64_t>(0L); "
      "x0<static_cast<int64_t>(3L); x0+=static_cast<int64_t>(1L))\n  {\n"
      "    float tmp_acc0 = 0;\n"
      "    at::vec::Vectorized<float> tmp_acc0_vec = "
      "at::vec::Vectorized<float>(0);\n"
      "    for(int64_t x1=static_cast<int64_t>(0L); "
      "x1<static_cast<int64_t>(20L); x1+=static_cast<int64_t>(16L))\n    {\n"
      "      if(C10_LIKELY(x1 >= static_cast<int64_t>(0) && x1 < "
      "static_cast<int64_t>(16L)))\n      {\n"
      "        auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + "
      "static_cast<int64_t>(x1 + 20L*x0), static_cast<int64_t>(16));\n"
      "        tmp_acc0_vec = tmp_acc0_vec + tmp0;\n      }\n"
      "      if(C10_UNLIKELY(x1 >= static_cast<int64_t>(16L) && x1 < "
      "static_cast<int64_t>(20L)))\n      {\n"
      "        auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 20L*x0)];\n"
      "        tmp_acc0 = tmp_acc0 + tmp0;\n      }\n    }\n"
      "    tmp_acc0 = tmp_acc0 + at::vec::vec_reduce_all<float, "
      "1>([](at::vec::Vectorized<float>& x, at::vec::Vectorized<float>& y) { "
      "return x + y; }, tmp_acc0_vec);\n"
      "    in_out_ptr0[static_cast<int64_t>(x0)] = "
      "static_cast<float>(tmp_acc0);\n  }\n"
      "  for(int64_t x0=static_cast<int64_t>(0L); "
      "x0<static_cast<int64_t>(3L); x0+=static_cast<int64_t>(1L))\n  {\n"
      "    auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0)];\n"
      "    auto tmp1 = static_cast<float>(20.0);\n"
      "    auto tmp2 = float(tmp0 / tmp1);\n"
      "    auto tmp3 = tmp2 < static_cast<float>(0) ? tmp2 : std::exp(tmp2);\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n  }\n}\n''')\n";
  Program program(
      kernel + call("    a, = args\n"
                    "    buf0 = empty_strided_cpu((3, ), (1, ), "
                    "torch.float32)\n"
                    "    buf1 = empty_strided_cpu((3, ), (1, ), "
                    "torch.float32)\n"
                    "    k(buf0, a, buf1)\n"
                    "    return (buf1, )\n"),
      "    def forward(self, a: \"f32[3, 20]\"):\n"
      "        mean: \"f32[3]\" = torch.ops.aten.mean.dim(a, [1])\n"
      "        sum_1: \"f32[3]\" = torch.ops.aten.sum.dim_IntList(a, [1])\n"
      "        return (mean, sum_1)\n");
  EXPECT_EQ(program.nodes(0), "mean");
  EXPECT_TRUE(program.isHigh(0));
  // What it writes before it reads is no input.
  EXPECT_EQ(program.map.launches[0].inputs, std::vector<std::string>{"a"});
  EXPECT_EQ(program.map.launches[0].bytesRead, 240u);
}

// An image made smaller: its places are known before the program runs, and
// conversions to whole numbers leave out what is behind the point. Of a result
// of one place the kernel has the numbers that they come to.
std::string halved(int size, int width = 4) {
  std::string result = "f32[2, " + std::to_string(size) + "]";
  std::string one = "[" + std::to_string(size) + "]\" = torch.ops.";
  std::string whole = "i64" + one, real = "f32" + one;
  return "    def forward(self, a: \"f32[2, " + std::to_string(width) +
         "]\"):\n"
         "        iota: \"" +
         whole + "prims.iota.default(" + std::to_string(size) +
         ", start = 0, step = 1, dtype = torch.int64)\n"
         "        at: \"" +
         real +
         "prims.convert_element_type.default(iota, torch.float32)\n"
         "        add: \"" +
         real +
         "aten.add.Tensor(at, 0.5)\n"
         "        mul: \"" +
         real +
         "aten.mul.Tensor(add, 2.0)\n"
         "        sub: \"" +
         real +
         "aten.sub.Tensor(mul, 0.5)\n"
         "        low: \"" +
         whole +
         "prims.convert_element_type.default(sub, torch.int64)\n"
         "        high: \"" +
         whole +
         "aten.add.Tensor(low, 1)\n"
         "        left: \"" +
         result +
         "\" = torch.ops.aten._unsafe_index.Tensor(a, [None, low])\n"
         "        right: \"" +
         result +
         "\" = torch.ops.aten._unsafe_index.Tensor(a, [None, high])\n"
         "        weight: \"" +
         real +
         "aten.sub.Tensor(sub, low)\n"
         "        apart: \"" +
         result +
         "\" = torch.ops.aten.sub.Tensor(right, left)\n"
         "        part: \"" +
         result +
         "\" = torch.ops.aten.mul.Tensor(apart, weight)\n"
         "        between: \"" +
         result +
         "\" = torch.ops.aten.add.Tensor(left, part)\n"
         "        return (between, )\n";
}

constexpr StringLiteral kHalvingNodes =
    "iota at add mul sub low high left right weight apart part between";

TEST(LaunchProof, PlacesThatAreKnownAreWholeNumbers) {
  std::string folded = cppKernel(
      "k", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(4L*x0)];\n"
      "  auto tmp1 = in_ptr0[static_cast<int64_t>(1L + 4L*x0)];\n"
      "  auto tmp2 = float(tmp1 - tmp0);\n"
      "  auto tmp3 = static_cast<float>(0.5);\n"
      "  auto tmp4 = float(tmp2 * tmp3);\n"
      "  auto tmp5 = float(tmp0 + tmp4);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp5;\n}\n");
  Program one(folded + call("    a, = args\n"
                            "    buf0 = empty_strided_cpu((2, 1), (1, 1), "
                            "torch.float32)\n"
                            "    k(a, buf0)\n"
                            "    return (buf0, )\n"),
              halved(1));
  EXPECT_EQ(one.nodes(0), kHalvingNodes);
  EXPECT_TRUE(one.isHigh(0));

  std::string cpp = cppKernel(
      "k", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(2L); "
      "x1+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = static_cast<int64_t>(x1);\n"
      "  auto tmp1 = c10::convert<float>(tmp0);\n"
      "  auto tmp2 = static_cast<float>(0.5);\n"
      "  auto tmp3 = float(tmp1 + tmp2);\n"
      "  auto tmp4 = static_cast<float>(2.0);\n"
      "  auto tmp5 = float(tmp3 * tmp4);\n"
      "  auto tmp6 = float(tmp5 - tmp2);\n"
      "  auto tmp7 = c10::convert<int64_t>(tmp6);\n"
      "  auto tmp8 = in_ptr0[static_cast<int64_t>(tmp7 + 4L*x0)];\n"
      "  auto tmp9 = int64_t(tmp7 + static_cast<int64_t>(1));\n"
      "  auto tmp10 = in_ptr0[static_cast<int64_t>(tmp9 + 4L*x0)];\n"
      "  auto tmp11 = float(tmp10 - tmp8);\n"
      "  auto tmp12 = c10::convert<float>(tmp7);\n"
      "  auto tmp13 = float(tmp6 - tmp12);\n"
      "  auto tmp14 = float(tmp11 * tmp13);\n"
      "  auto tmp15 = float(tmp8 + tmp14);\n"
      "  out_ptr0[static_cast<int64_t>(x1 + 2L*x0)] = tmp15;\n}\n}\n");
  std::string triton = tritonKernel(
      "k", "in_ptr0, out_ptr0", "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
      "    x1 = (xindex % 2)\n"
      "    x2 = xindex // 2\n"
      "    tmp0 = x1\n"
      "    tmp1 = tmp0.to(tl.float32)\n"
      "    tmp2 = 0.5\n"
      "    tmp3 = tmp1 + tmp2\n"
      "    tmp4 = 2.0\n"
      "    tmp5 = tmp3 * tmp4\n"
      "    tmp6 = tmp5 - tmp2\n"
      "    tmp7 = tmp6.to(tl.int64)\n"
      "    tmp8 = tl.load(in_ptr0 + (tmp7 + 4*x2), xmask)\n"
      "    tmp9 = tl.full([1], 1, tl.int64)\n"
      "    tmp10 = tmp7 + tmp9\n"
      "    tmp11 = tl.load(in_ptr0 + (tmp10 + 4*x2), xmask)\n"
      "    tmp12 = tmp11 - tmp8\n"
      "    tmp13 = tmp7.to(tl.float32)\n"
      "    tmp14 = tmp6 - tmp13\n"
      "    tmp15 = tmp12 * tmp14\n"
      "    tmp16 = tmp8 + tmp15\n"
      "    tl.store(out_ptr0 + (x0), tmp16, xmask)\n");
  std::string cast = cpp;
  cast.replace(cast.find("c10::convert<int64_t>"),
               StringRef("c10::convert<int64_t>").size(),
               "static_cast<int64_t>");
  for (const auto &[kernel, launch] :
       {std::pair(cpp, "    k(a, buf0)\n"), std::pair(cast, "    k(a, buf0)\n"),
        std::pair(triton, "    k.run(a, buf0, 4, stream=stream0)\n")}) {
    Program two(kernel + call("    a, = args\n"
                              "    buf0 = empty_strided_cpu((2, 2), (2, 1), "
                              "torch.float32)\n" +
                              std::string(launch) + "    return (buf0, )\n"),
                halved(2));
    EXPECT_EQ(two.nodes(0), kHalvingNodes);
    EXPECT_TRUE(two.isHigh(0));
  }

  // In vectors the number of them stands beside the type.
  auto gather = [](const std::string &places) {
    return "[&] {\n"
           "    __at_align__ std::array<float, 16> tmpbuf;\n"
           "    for (long x1_inner = 0; x1_inner < static_cast<int64_t>(16); "
           "x1_inner++) {\n"
           "      tmpbuf[x1_inner] = in_ptr0[static_cast<int64_t>(" +
           places +
           "[x1_inner] + 32L*x0)];\n    }\n"
           "    return at::vec::Vectorized<float>::loadu(tmpbuf.data(), "
           "static_cast<int64_t>(16));\n  }();\n";
  };
  auto places = [](const std::string &vector) {
    return "[&] {\n"
           "    __at_align__ std::array<int64_t, 16> tmpbuf;\n    " +
           vector +
           ".store(tmpbuf.data(), static_cast<int64_t>(16));\n"
           "    return tmpbuf;\n  }();\n";
  };
  std::string vectors = cppKernel(
      "k", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(16L); "
      "x1+=static_cast<int64_t>(16L)) {\n"
      "  auto tmp0 = x1;\n"
      "  auto tmp1 = c10::convert<float>(tmp0);\n"
      "  auto tmp2 = at::vec::Vectorized<float>::arange(tmp1, 1);\n"
      "  auto tmp3 = static_cast<float>(0.5);\n"
      "  auto tmp4 = at::vec::Vectorized<float>(tmp3);\n"
      "  auto tmp5 = tmp2 + tmp4;\n"
      "  auto tmp6 = static_cast<float>(2.0);\n"
      "  auto tmp7 = at::vec::Vectorized<float>(tmp6);\n"
      "  auto tmp8 = tmp5 * tmp7;\n"
      "  auto tmp9 = tmp8 - tmp4;\n"
      "  auto tmp10 = at::vec::convert<int64_t,2,float,1>(tmp9);\n"
      "  auto tmp11 = " +
          places("tmp10") + "  auto tmp12 = " + gather("tmp11") +
          "  auto tmp13 = static_cast<int64_t>(1);\n"
          "  auto tmp14 = at::vec::VectorizedN<int64_t,2>(tmp13);\n"
          "  auto tmp15 = tmp10 + tmp14;\n"
          "  auto tmp16 = " +
          places("tmp15") + "  auto tmp17 = " + gather("tmp16") +
          "  auto tmp18 = tmp17 - tmp12;\n"
          "  auto tmp19 = at::vec::convert<float,1,int64_t,2>(tmp10);\n"
          "  auto tmp20 = tmp9 - tmp19;\n"
          "  auto tmp21 = tmp18 * tmp20;\n"
          "  auto tmp22 = tmp12 + tmp21;\n"
          "  tmp22.store(out_ptr0 + static_cast<int64_t>(x1 + 16L*x0));\n"
          "}\n}\n");
  Program wide(vectors + call("    a, = args\n"
                              "    buf0 = empty_strided_cpu((2, 16), (16, 1), "
                              "torch.float32)\n"
                              "    k(a, buf0)\n"
                              "    return (buf0, )\n"),
               halved(16, 32));
  EXPECT_EQ(wide.nodes(0), kHalvingNodes);
  EXPECT_TRUE(wide.isHigh(0));
}

// Two concatenations begin with parts of one value: the graph cuts it out for
// each of them.
TEST(LaunchProof, PartsOfOneValueBeginSeveralConcatenations) {
  std::string parts = cppKernel(
      "k0",
      "'const float*', 'const float*', 'float*', 'float*', 'float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, float* out_ptr0, float* "
      "out_ptr1, float* out_ptr2, float* out_ptr3",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp0;\n"
      "  out_ptr1[static_cast<int64_t>(x0)] = tmp0;\n}\n"
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(4L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr1[static_cast<int64_t>(x0)];\n"
      "  auto tmp1 = std::exp(tmp0);\n"
      "  auto tmp2 = std::tanh(tmp0);\n"
      "  out_ptr2[static_cast<int64_t>(x0)] = tmp1;\n"
      "  out_ptr3[static_cast<int64_t>(x0)] = tmp2;\n}\n");
  std::string sum = cppKernel(
      "k1", "'const float*', 'const float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(6L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "  auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
      "  auto tmp2 = float(tmp0 + tmp1);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n}\n");
  Program program(
      parts + sum +
          call("    a, b = args\n"
               "    buf2 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    buf0 = reinterpret_tensor(buf2, (2, ), (1, ), 0)\n"
               "    buf1 = reinterpret_tensor(buf2, (4, ), (1, ), 2)\n"
               "    buf5 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    buf3 = reinterpret_tensor(buf5, (2, ), (1, ), 0)\n"
               "    buf4 = reinterpret_tensor(buf5, (4, ), (1, ), 2)\n"
               "    k0(a, b, buf0, buf3, buf1, buf4)\n"
               "    buf6 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    k1(buf2, buf5, buf6)\n"
               "    return (buf6, )\n"),
      "    def forward(self, a: \"f32[3]\", b: \"f32[4]\"):\n"
      "        first: \"f32[2]\" = torch.ops.aten.slice.Tensor(a, 0, 0, 2)\n"
      "        exp: \"f32[4]\" = torch.ops.aten.exp.default(b)\n"
      "        cat: \"f32[6]\" = torch.ops.aten.cat.default([first, exp])\n"
      "        again: \"f32[2]\" = torch.ops.aten.slice.Tensor(a, 0, 0, 2)\n"
      "        tanh: \"f32[4]\" = torch.ops.aten.tanh.default(b)\n"
      "        cat_1: \"f32[6]\" = torch.ops.aten.cat.default([again, tanh])\n"
      "        add: \"f32[6]\" = torch.ops.aten.add.Tensor(cat, cat_1)\n"
      "        return (add, )\n");
  EXPECT_EQ(program.nodes(0), "exp tanh cat cat_1");
  EXPECT_EQ(program.nodes(1), "add");
  EXPECT_TRUE(program.isHigh(1));
}

// Two concatenations of the same parts, along one dimension and along another.
TEST(LaunchProof, ConcatenationsAreOfTheDimensionThatTheirPartsStandAlong) {
  auto store = [](const char *name, const char *tmp, const char *place) {
    return "  " + std::string(name) + "[static_cast<int64_t>(" + place +
           ")] = " + tmp + ";\n";
  };
  // Rows of four are written beside rows of two, or behind them.
  std::string parts = cppKernel(
      "k0", "'const float*', 'float*', 'float*', 'float*', 'float*'",
      "const float* in_ptr0, float* out_ptr0, float* out_ptr1, float* "
      "out_ptr2, float* out_ptr3",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(2L); "
      "x1+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 2L*x0)];\n"
      "  auto tmp1 = std::exp(tmp0);\n"
      "  auto tmp2 = std::sin(tmp0);\n" +
          store("out_ptr0", "tmp1", "x1 + 2L*x0") +
          store("out_ptr1", "tmp1", "x1 + 4L*x0") +
          store("out_ptr2", "tmp2", "x1 + 2L*x0") +
          store("out_ptr3", "tmp2", "x1 + 4L*x0") + "}\n}\n");
  std::string tanh = cppKernel(
      "k1", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(8L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "  auto tmp1 = std::tanh(tmp0);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp1;\n}\n");
  // Storages of their shapes, and some that were made for another tensor.
  for (auto [rows, columns] : {std::pair("(4, 2), (2, 1)", "(2, 4), (4, 1)"),
                               std::pair("(8, ), (1, )", "(8, ), (1, )")}) {
    std::string made;
    for (auto [name, shape] : {std::pair("buf2", rows), {"buf5", columns}})
      made += "    " + std::string(name) + " = empty_strided_cpu(" + shape +
              ", torch.float32)\n";
    Program program(
        parts + tanh +
            call("    a, = args\n" + made +
                 "    buf0 = reinterpret_tensor(buf2, (2, 2), (2, 1), 0)\n"
                 "    buf1 = reinterpret_tensor(buf2, (2, 2), (2, 1), 4)\n"
                 "    buf3 = reinterpret_tensor(buf5, (2, 2), (4, 1), 0)\n"
                 "    buf4 = reinterpret_tensor(buf5, (2, 2), (4, 1), 2)\n"
                 "    k0(a, buf0, buf3, buf1, buf4)\n"
                 "    buf6 = empty_strided_cpu((4, 2), (2, 1), torch.float32)\n"
                 "    k1(buf2, buf6)\n"
                 "    buf7 = empty_strided_cpu((2, 4), (4, 1), torch.float32)\n"
                 "    k1(buf5, buf7)\n"
                 "    return (buf6, buf7, )\n"),
        "    def forward(self, a: \"f32[2, 2]\"):\n"
        "        exp: \"f32[2, 2]\" = torch.ops.aten.exp.default(a)\n"
        "        sin: \"f32[2, 2]\" = torch.ops.aten.sin.default(a)\n"
        "        cat: \"f32[4, 2]\" = torch.ops.aten.cat.default([exp, sin])\n"
        "        cat_1: \"f32[2, 4]\" = torch.ops.aten.cat.default([exp, sin], "
        "1)\n"
        "        tanh: \"f32[4, 2]\" = torch.ops.aten.tanh.default(cat)\n"
        "        tanh_1: \"f32[2, 4]\" = torch.ops.aten.tanh.default(cat_1)\n"
        "        return (tanh, tanh_1)\n");
    EXPECT_EQ(program.nodes(0), "exp sin cat cat_1");
    EXPECT_EQ(program.nodes(1), "tanh");
    EXPECT_TRUE(program.isHigh(1));
    EXPECT_EQ(program.nodes(2), "tanh_1");
    EXPECT_TRUE(program.isHigh(2));
  }
}

// A value and its transpose in one place of two concatenations: either may be
// what a storage holds.
TEST(LaunchProof, ConcatenationsOfViewsOfTheSameAreNotSure) {
  std::string parts = cppKernel(
      "k0", "'const float*', 'float*', 'float*', 'float*', 'float*'",
      "const float* in_ptr0, float* out_ptr0, float* out_ptr1, float* "
      "out_ptr2, float* out_ptr3",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(2L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(2L); "
      "x1+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 2L*x0)];\n"
      "  auto tmp1 = std::exp(tmp0);\n"
      "  auto tmp2 = std::sin(tmp0);\n"
      "  out_ptr0[static_cast<int64_t>(x1 + 2L*x0)] = tmp1;\n"
      "  out_ptr1[static_cast<int64_t>(x0 + 2L*x1)] = tmp1;\n"
      "  out_ptr2[static_cast<int64_t>(x1 + 2L*x0)] = tmp2;\n"
      "  out_ptr3[static_cast<int64_t>(x1 + 2L*x0)] = tmp2;\n}\n}\n");
  std::string tanh = cppKernel(
      "k1", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(8L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "  auto tmp1 = std::tanh(tmp0);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp1;\n}\n");
  Program program(
      parts + tanh +
          call("    a, = args\n"
               "    buf2 = empty_strided_cpu((4, 2), (2, 1), torch.float32)\n"
               "    buf5 = empty_strided_cpu((4, 2), (2, 1), torch.float32)\n"
               "    buf0 = reinterpret_tensor(buf2, (2, 2), (2, 1), 0)\n"
               "    buf1 = reinterpret_tensor(buf2, (2, 2), (2, 1), 4)\n"
               "    buf3 = reinterpret_tensor(buf5, (2, 2), (2, 1), 0)\n"
               "    buf4 = reinterpret_tensor(buf5, (2, 2), (2, 1), 4)\n"
               "    k0(a, buf0, buf3, buf1, buf4)\n"
               "    buf6 = empty_strided_cpu((4, 2), (2, 1), torch.float32)\n"
               "    k1(buf2, buf6)\n"
               "    buf7 = empty_strided_cpu((4, 2), (2, 1), torch.float32)\n"
               "    k1(buf5, buf7)\n"
               "    return (buf6, buf7, )\n"),
      "    def forward(self, a: \"f32[2, 2]\"):\n"
      "        exp: \"f32[2, 2]\" = torch.ops.aten.exp.default(a)\n"
      "        t: \"f32[2, 2]\" = torch.ops.aten.permute.default(exp, [1, 0])\n"
      "        sin: \"f32[2, 2]\" = torch.ops.aten.sin.default(a)\n"
      "        cat: \"f32[4, 2]\" = torch.ops.aten.cat.default([exp, sin])\n"
      "        cat_1: \"f32[4, 2]\" = torch.ops.aten.cat.default([t, sin])\n"
      "        tanh: \"f32[4, 2]\" = torch.ops.aten.tanh.default(cat)\n"
      "        tanh_1: \"f32[4, 2]\" = torch.ops.aten.tanh.default(cat_1)\n"
      "        return (tanh, tanh_1)\n");
  EXPECT_EQ(program.nodes(1), "tanh");
  EXPECT_FALSE(program.isHigh(1));
  EXPECT_FALSE(program.isHigh(2));
}

// Constants that begin alike are told apart by the concatenation that they
// become a part of.
TEST(LaunchProof, ConcatenationsTellConstantsApart) {
  std::string weights = cppKernel(
      "k0", "'float*', 'float*', 'float*', 'float*'",
      "float* out_ptr0, float* out_ptr1, float* out_ptr2, float* out_ptr3",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(3L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = x0;\n"
      "  auto tmp1 = c10::convert<float>(tmp0);\n"
      "  auto tmp2 = static_cast<float>(0.25);\n"
      "  auto tmp3 = float(tmp1 + tmp2);\n"
      "  auto tmp4 = static_cast<float>(0.0);\n"
      "  auto tmp5 = max_propagate_nan(tmp3, tmp4);\n"
      "  auto tmp6 = static_cast<float>(1.0);\n"
      "  auto tmp7 = min_propagate_nan(tmp5, tmp6);\n"
      "  auto tmp8 = float(tmp6 - tmp7);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp7;\n"
      "  out_ptr1[static_cast<int64_t>(x0)] = tmp8;\n"
      "  out_ptr2[static_cast<int64_t>(x0)] = tmp7;\n"
      "  out_ptr3[static_cast<int64_t>(x0)] = tmp8;\n}\n");
  std::string sum = cppKernel(
      "k1", "'const float*', 'const float*', 'const float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, const float* in_ptr2, "
      "float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(6L); "
      "x0+=static_cast<int64_t>(1L)) {\n"
      "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "  auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
      "  auto tmp2 = in_ptr2[static_cast<int64_t>(x0)];\n"
      "  auto tmp3 = float(tmp0 * tmp1);\n"
      "  auto tmp4 = float(tmp3 + tmp2);\n"
      "  out_ptr0[static_cast<int64_t>(x0)] = tmp4;\n}\n");
  std::string body = "    def forward(self, a: \"f32[6]\"):\n";
  for (std::string end : {"", "_1"}) {
    auto node = [&](const std::string &name, const std::string &operation) {
      body += "        " + name + end + ": \"f32[3]\" = torch.ops." +
              operation + "\n";
    };
    body += "        iota" + end +
            ": \"i64[3]\" = torch.ops.prims.iota.default(3, start = 0, step "
            "= 1, dtype = torch.int64)\n";
    node("at",
         "prims.convert_element_type.default(iota" + end + ", torch.float32)");
    node("add", "aten.add.Tensor(at" + end + ", 0.25)");
    node("low", "aten.clamp_min.default(add" + end + ", 0.0)");
    node("high", "aten.clamp_max.default(low" + end + ", 1.0)");
    node("left", "aten.sub.Tensor(1.0, high" + end + ")");
    body += "        cat" + end +
            ": \"f32[6]\" = torch.ops.aten.cat.default([high" + end + ", left" +
            end + "])\n";
  }
  Program program(
      weights + sum +
          call("    a, = args\n"
               "    buf2 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    buf0 = reinterpret_tensor(buf2, (3, ), (1, ), 0)\n"
               "    buf1 = reinterpret_tensor(buf2, (3, ), (1, ), 3)\n"
               "    buf5 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    buf3 = reinterpret_tensor(buf5, (3, ), (1, ), 0)\n"
               "    buf4 = reinterpret_tensor(buf5, (3, ), (1, ), 3)\n"
               "    k0(buf0, buf1, buf3, buf4)\n"
               "    buf6 = empty_strided_cpu((6, ), (1, ), torch.float32)\n"
               "    k1(a, buf2, buf5, buf6)\n"
               "    return (buf6, )\n"),
      body +
          "        mul: \"f32[6]\" = torch.ops.aten.mul.Tensor(a, cat)\n"
          "        sum_1: \"f32[6]\" = torch.ops.aten.add.Tensor(mul, cat_1)\n"
          "        return (sum_1, )\n");
  EXPECT_EQ(program.nodes(1), "mul sum_1");
}

// A sum over tiles that are turned round has no more terms for that.
TEST(LaunchProof, TilesHaveTheElementsOfTheirLoop) {
  std::string kernel = cppKernel(
      "k", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(16L); "
      "x0+=static_cast<int64_t>(16L)) {\n"
      "  at::vec::Vectorized<float> tmp_acc0_vec = "
      "at::vec::Vectorized<float>(0);\n"
      "  for(int64_t x1=static_cast<int64_t>(0L); "
      "x1<static_cast<int64_t>(32L); x1+=static_cast<int64_t>(16L)) {\n"
      "    alignas(16) float tmp1[16*16];\n"
      "    transpose_mxn<float,static_cast<int64_t>(16),static_cast<int64_t>("
      "16),false>(in_ptr0 + static_cast<int64_t>(x1 + 32L*x0), "
      "static_cast<int64_t>(32L), tmp1, static_cast<int64_t>(16));\n"
      "    for (long x1_inner = 0; x1_inner < static_cast<int64_t>(16); "
      "x1_inner++) {\n"
      "      auto tmp2 = at::vec::Vectorized<float>::loadu(tmp1 + "
      "static_cast<int64_t>(16L*x1_inner), static_cast<int64_t>(16));\n"
      "      tmp_acc0_vec = tmp_acc0_vec + tmp2;\n    }\n  }\n"
      "  tmp_acc0_vec.store(out_ptr0 + static_cast<int64_t>(x0));\n}\n");
  Program program(
      kernel + call("    a, = args\n"
                    "    buf0 = empty_strided_cpu((16, ), (1, ), "
                    "torch.float32)\n"
                    "    k(a, buf0)\n"
                    "    return (buf0, )\n"),
      "    def forward(self, a: \"f32[16, 32]\"):\n"
      "        sum_1: \"f32[16]\" = torch.ops.aten.sum.dim_IntList(a, [1])\n"
      "        return (sum_1, )\n");
  EXPECT_EQ(program.nodes(0), "sum_1");
  EXPECT_TRUE(program.isHigh(0));
}

// Where data says where to store, the first element is not what was there
// before.
TEST(LaunchProof, ScatteredStoresAreNotTheirStart) {
  std::string kernel =
      "k = async_compile.cpp_pybinding(['const int64_t*', 'const float*', "
      "'float*'], r'''\nextern \"C\"  void  kernel(const int64_t* in_ptr0, "
      "const float* in_ptr1, float* out_ptr0)\n{\n"
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = static_cast<float>(0.0);\n  }\n"
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "    auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
      "    atomic_add(&out_ptr0[static_cast<int64_t>(tmp0)], tmp1);\n  }\n}\n"
      "''')\n";
  Provenance provenance;
  provenance.kernelToPost["k:1"] = {"full", "index_put"};
  Program program(
      kernel + call("    i, a = args\n"
                    "    buf0 = empty_strided_cpu((4, ), (1, ), "
                    "torch.float32)\n"
                    "    # [Provenance debug handles] k:1\n"
                    "    k(i, a, buf0)\n"
                    "    return (buf0, )\n"),
      "    def forward(self, i: \"i64[4]\", a: \"f32[4]\"):\n"
      "        full: \"f32[4]\" = torch.ops.aten.full.default([4], 0)\n"
      "        index_put: \"f32[4]\" = "
      "torch.ops.aten.index_put.default(full, [i], a, True)\n"
      "        return (index_put,)\n",
      std::move(provenance));
  EXPECT_EQ(program.nodes(0), "full index_put");
}

// The gradient of a slice's end: a place that counts from the end was one
// before the start, so that the sum with it had no value, and what it is added
// to was taken for what is stored.
TEST(LaunchProof, ScattersCountFromTheEnd) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tmp1 = tl.full([1], 2.0, tl.float32)\n"
                   "    tmp2 = tmp0 * tmp1\n"
                   "    tmp3 = tl.load(in_ptr0 + (0))\n"
                   "    tmp4 = tl.load(in_ptr0 + (1))\n"
                   "    tmp5 = tl.load(in_ptr0 + (2))\n"
                   "    tmp6 = tmp3 + tmp4\n"
                   "    tmp7 = tmp6 + tmp5\n"
                   "    tmp8 = tl.full([1], 2, tl.int64)\n"
                   "    tmp9 = x0\n"
                   "    tmp10 = tmp9 >= tmp8\n"
                   "    tmp11 = tl.full([1], 0.0, tl.float32)\n"
                   "    tmp12 = tl.where(tmp10, tmp7, tmp11)\n"
                   "    tmp13 = tmp2 + tmp12\n"
                   "    tl.store(out_ptr0 + (x0), tmp13, xmask)\n");
  std::string later =
      tritonKernel("triton_poi_1", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tmp1 = libdevice.tanh(tmp0)\n"
                   "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n");
  for (StringRef place : {"0, -1, 9223372036854775807", "0, -1, 3"}) {
    Program program(
        kernel + later +
            call("    a, = args\n"
                 "    buf0 = empty_strided_cuda((3, ), (1, ), torch.float32)\n"
                 "    triton_poi_0.run(a, buf0, 3, stream=stream0)\n"
                 "    buf1 = empty_strided_cuda((3, ), (1, ), torch.float32)\n"
                 "    triton_poi_1.run(buf0, buf1, 3, stream=stream0)\n"
                 "    return (buf1, )\n"),
        ("    def forward(self, a: \"f32[3]\"):\n"
         "        mul: \"f32[3]\" = torch.ops.aten.mul.Tensor(a, 2.0)\n"
         "        sum_1: \"f32[1]\" = torch.ops.aten.sum.dim_IntList(a, [0], "
         "True)\n"
         "        full: \"f32[3]\" = torch.ops.aten.full.default([3], 0)\n"
         "        put: \"f32[3]\" = torch.ops.aten.slice_scatter.default(full, "
         "sum_1, " +
         place +
         ")\n"
         "        add: \"f32[3]\" = torch.ops.aten.add.Tensor(mul, put)\n"
         "        tanh: \"f32[3]\" = torch.ops.aten.tanh.default(add)\n"
         "        return (tanh,)\n")
            .str());
    EXPECT_EQ(program.nodes(0), "mul sum_1 full put add");
    EXPECT_EQ(program.nodes(1), "tanh");
  }
}

/// A kernel that scatters places by `i`, gathers `t` at what that left, and
/// adds `e`: it stores the temporary `stored`, and the exponential of the sum.
std::string scatteringKernel(StringRef stored) {
  return cppKernel(
      "k",
      "'const int64_t*', 'const float*', 'const float*', 'int64_t*', "
      "'float*', 'float*'",
      "const int64_t* in_ptr0, const float* in_ptr1, const float* in_ptr2, "
      "int64_t* out_ptr0, float* out_ptr1, float* out_ptr2",
      ("  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
       "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
       "    auto tmp1 = x0;\n"
       "    auto tmp2 = c10::convert<int64_t>(tmp1);\n"
       "    out_ptr0[static_cast<int64_t>(tmp0)] = tmp2;\n  }\n"
       "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
       "    auto tmp0 = out_ptr0[static_cast<int64_t>(x0)];\n"
       "    auto tmp1 = in_ptr1[static_cast<int64_t>(tmp0)];\n"
       "    auto tmp2 = in_ptr2[static_cast<int64_t>(x0)];\n"
       "    auto tmp3 = float(tmp1 + tmp2);\n"
       "    auto tmp4 = std::exp(tmp3);\n"
       "    out_ptr1[static_cast<int64_t>(x0)] = " +
       stored + ";\n    out_ptr2[static_cast<int64_t>(x0)] = tmp4;\n  }\n")
          .str());
}

/// The call of that kernel, as launch k:1, and of another one, "l", of what it
/// stores; `handle` stands before that.
std::string scatteringCall(const std::string &handle) {
  return call("    i, t, e = args\n"
              "    buf0 = empty_strided_cpu((4, ), (1, ), torch.int64)\n"
              "    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
              "    buf2 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
              "    # [Provenance debug handles] k:1\n"
              "    k(i, t, e, buf0, buf1, buf2)\n"
              "    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)\n" +
              handle +
              "    l(buf1, e, buf3)\n"
              "    return (buf2, buf3)\n");
}

/// The nodes of that kernel, and what PyTorch records of it.
constexpr StringLiteral kScatteringNodes =
    "    def forward(self, i: \"i64[4]\", t: \"f32[4]\", e: \"f32[4]\"):\n"
    "        empty: \"i64[4]\" = torch.ops.aten.full.default([4], 0)\n"
    "        iota: \"i64[4]\" = torch.ops.prims.iota.default(4, start = 0, "
    "step = 1, dtype = torch.int64)\n"
    "        index_put: \"i64[4]\" = "
    "torch.ops.aten.index_put.default(empty, [i], iota)\n"
    "        index: \"f32[4]\" = torch.ops.aten.index.Tensor(t, "
    "[index_put])\n"
    "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(index, e)\n"
    "        exp: \"f32[4]\" = torch.ops.aten.exp.default(add)\n";

Provenance scatteringRecord() {
  Provenance provenance;
  provenance.kernelToPost["k:1"] = {"empty", "iota", "index_put",
                                    "index", "add",  "exp"};
  return provenance;
}

// What is read where data says, of which no value is known, goes into what is
// stored: without it the store's node was guessed, and the next kernel, which
// adds again, had that addition as its input.
TEST(LaunchProof, WhatDataLeadsToIsRead) {
  std::string second =
      cppKernel("l", "'const float*', 'const float*', 'float*'",
                "const float* in_ptr0, const float* in_ptr1, float* out_ptr0",
                "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
                "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                "    auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
                "    auto tmp2 = float(tmp0 + tmp1);\n"
                "    auto tmp3 = std::tanh(tmp2);\n"
                "    out_ptr0[static_cast<int64_t>(x0)] = tmp3;\n  }\n");
  Provenance provenance = scatteringRecord();
  provenance.kernelToPost["l:2"] = {"add", "tanh"};
  Program program(
      scatteringKernel("tmp1") + second +
          scatteringCall("    # [Provenance debug handles] l:2\n"),
      kScatteringNodes.str() +
          "        tanh: \"f32[4]\" = torch.ops.aten.tanh.default(add)\n"
          "        return (exp, tanh)\n",
      std::move(provenance));
  EXPECT_EQ(program.nodes(0), "empty iota index_put index add exp");
  EXPECT_EQ(program.nodes(1), "add tanh");
}

// A buffer that is written over in place: what was read back from it was
// another value than the last, so that nothing after it had one.
TEST(LaunchProof, WhatIsWrittenOverWasReadBefore) {
  std::string kernel =
      cppKernel("k", "'float*', 'const float*', 'float*', 'float*'",
                "float* in_out_ptr0, const float* in_ptr0, float* out_ptr0, "
                "float* out_ptr1",
                "  for(int64_t x0=0; x0<6; x0+=1)\n  {\n"
                "    auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0)];\n"
                "    auto tmp1 = in_ptr0[static_cast<int64_t>(x0)];\n"
                "    auto tmp2 = float(tmp0 * tmp1);\n"
                "    in_out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n  }\n"
                "  for(int64_t x0=0; x0<3; x0+=1)\n  {\n"
                "    auto tmp0 = in_out_ptr0[static_cast<int64_t>(x0)];\n"
                "    auto tmp1 = in_out_ptr0[static_cast<int64_t>(3L + x0)];\n"
                "    auto tmp2 = float(tmp0 + tmp1);\n"
                "    auto tmp3 = std::tanh(tmp2);\n"
                "    out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n"
                "    out_ptr1[static_cast<int64_t>(x0)] = tmp3;\n  }\n"
                "  for(int64_t x0=0; x0<2; x0+=1)\n  {\n"
                "    for(int64_t x1=0; x1<3; x1+=1)\n    {\n"
                "      auto tmp0 = in_out_ptr0[static_cast<int64_t>(x1 + "
                "3L*x0)];\n"
                "      auto tmp1 = out_ptr0[static_cast<int64_t>(x1)];\n"
                "      auto tmp2 = float(tmp0 - tmp1);\n"
                "      in_out_ptr0[static_cast<int64_t>(x1 + 3L*x0)] = tmp2;\n"
                "    }\n  }\n");
  Program program(
      kernel +
          call("    g, a = args\n"
               "    buf0 = empty_strided_cpu((3, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cpu((3, ), (1, ), torch.float32)\n"
               "    assert_size_stride(g, (2, 3), (3, 1), 'input')\n"
               "    buf2 = g; del g  # reuse\n"
               "    k(buf2, a, buf0, buf1)\n"
               "    return (buf2, buf0, buf1)\n"),
      "    def forward(self, g: \"f32[2, 3]\", a: \"f32[2, 3]\"):\n"
      "        mul: \"f32[2, 3]\" = torch.ops.aten.mul.Tensor(g, a)\n"
      "        sum_1: \"f32[3]\" = torch.ops.aten.sum.dim_IntList(mul, [0])\n"
      "        tanh: \"f32[3]\" = torch.ops.aten.tanh.default(sum_1)\n"
      "        sub: \"f32[2, 3]\" = torch.ops.aten.sub.Tensor(mul, sum_1)\n"
      "        return (sub, sum_1, tanh)\n");
  EXPECT_EQ(program.nodes(0), "mul sum_1 tanh sub");
  EXPECT_TRUE(program.isHigh(0));
}

// What data of floats gives as places lies between elements, and is taken apart
// by the steps of a layout alone.
TEST(LaunchProof, PlacesInOtherLayoutsAreThoseOfMemory) {
  std::string copy = cppKernel(
      "c", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "  for(int64_t x0=0; x0<3; x0+=1)\n  {\n"
      "    for(int64_t x1=0; x1<4; x1+=1)\n    {\n"
      "      auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 4L*x0)];\n"
      "      out_ptr0[static_cast<int64_t>(x0 + 3L*x1)] = tmp0;\n    }\n  }\n");
  std::string kernel = cppKernel(
      "k", "'const float*', 'const float*', 'const float*', 'float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, const float* in_ptr2, "
      "float* out_ptr0, float* out_ptr1",
      "  for(int64_t x0=0; x0<5; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr1[static_cast<int64_t>(x0)];\n"
      "    auto tmp1 = in_ptr2[static_cast<int64_t>(x0)];\n"
      "    auto tmp2 = std::floor(tmp0);\n"
      "    auto tmp3 = std::floor(tmp1);\n"
      "    auto tmp4 = c10::convert<int64_t>(tmp2);\n"
      "    auto tmp5 = c10::convert<int64_t>(tmp3);\n"
      "    auto tmp6 = in_ptr0[static_cast<int64_t>(tmp4 + 3L*tmp5)];\n"
      "    auto tmp7 = in_ptr0[static_cast<int64_t>(tmp5 + 3L*tmp4)];\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = std::exp(tmp7);\n"
      "    out_ptr1[static_cast<int64_t>(x0)] = std::exp(tmp6);\n  }\n");
  std::string later = cppKernel(
      "l", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "  for(int64_t x0=0; x0<5; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = std::tanh(tmp0);\n  }\n");
  Program program(
      copy + kernel + later +
          call("    a, p, q = args\n"
               "    buf0 = empty_strided_cpu((3, 4), (1, 3), torch.float32)\n"
               "    c(a, buf0)\n"
               "    buf1 = empty_strided_cpu((5, ), (1, ), torch.float32)\n"
               "    buf2 = empty_strided_cpu((5, ), (1, ), torch.float32)\n"
               "    k(buf0, p, q, buf1, buf2)\n"
               "    buf3 = empty_strided_cpu((5, ), (1, ), torch.float32)\n"
               "    l(buf1, buf3)\n"
               "    return (buf2, buf3)\n"),
      "    def forward(self, a: \"f32[3, 4]\", p: \"f32[5]\", q: "
      "\"f32[5]\"):\n"
      "        floor: \"f32[5]\" = torch.ops.aten.floor.default(p)\n"
      "        floor_1: \"f32[5]\" = torch.ops.aten.floor.default(q)\n"
      "        i: \"i64[5]\" = "
      "torch.ops.prims.convert_element_type.default(floor, torch.int64)\n"
      "        j: \"i64[5]\" = "
      "torch.ops.prims.convert_element_type.default(floor_1, torch.int64)\n"
      "        index: \"f32[5]\" = torch.ops.aten.index.Tensor(a, [i, j])\n"
      "        index_1: \"f32[5]\" = torch.ops.aten.index.Tensor(a, [j, i])\n"
      "        exp: \"f32[5]\" = torch.ops.aten.exp.default(index)\n"
      "        exp_1: \"f32[5]\" = torch.ops.aten.exp.default(index_1)\n"
      "        tanh: \"f32[5]\" = torch.ops.aten.tanh.default(exp_1)\n"
      "        tanh_1: \"f32[5]\" = torch.ops.aten.tanh.default(exp)\n"
      "        return (exp, tanh, tanh_1)\n");
  EXPECT_EQ(program.nodes(2), "tanh");
  EXPECT_TRUE(program.isHigh(1) && program.isHigh(2));
}

// Two values that both come from what a scatter left: without its own value
// neither had one, and the last was taken for the first.
TEST(LaunchProof, WhatAScatterLeftIsReadBack) {
  std::string later =
      cppKernel("l", "'const float*', 'const float*', 'float*'",
                "const float* in_ptr0, const float* in_ptr1, float* out_ptr0",
                "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
                "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                "    auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
                "    auto tmp2 = float(tmp0 * tmp1);\n"
                "    out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n  }\n");
  Program program(
      scatteringKernel("tmp3") + later + scatteringCall(""),
      kScatteringNodes.str() +
          "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(exp, e)\n"
          "        mul_1: \"f32[4]\" = torch.ops.aten.mul.Tensor(add, e)\n"
          "        return (exp, mul, mul_1)\n",
      scatteringRecord());
  EXPECT_EQ(program.nodes(1), "mul_1");
  EXPECT_TRUE(program.isHigh(0) && program.isHigh(1));
}

// Two constants that are equal everywhere: which of them a buffer is nothing
// tells, and what is made of both is the same.
TEST(LaunchProof, EqualConstantsAreReadBack) {
  std::string kernel = cppKernel(
      "k", "'const float*', 'float*', 'float*', 'float*', 'float*'",
      "const float* in_ptr0, float* out_ptr0, float* out_ptr1, float* "
      "out_ptr2, float* out_ptr3",
      "  for(int64_t x0=0; x0<8; x0+=1)\n  {\n"
      "    auto tmp0 = x0;\n"
      "    auto tmp1 = c10::convert<float>(tmp0);\n"
      "    auto tmp2 = static_cast<float>(0.5);\n"
      "    auto tmp3 = float(tmp1 * tmp2);\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = tmp3;\n"
      "    out_ptr1[static_cast<int64_t>(x0)] = tmp3;\n  }\n"
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "    auto tmp1 = out_ptr0[static_cast<int64_t>(4L + x0)];\n"
      "    auto tmp2 = out_ptr1[static_cast<int64_t>(4L + x0)];\n"
      "    out_ptr2[static_cast<int64_t>(x0)] = float(tmp0 - tmp1);\n"
      "    out_ptr3[static_cast<int64_t>(x0)] = float(tmp0 + tmp2);\n  }\n");
  Program program(
      kernel +
          call("    a, = args\n"
               "    buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cpu((8, 1), (1, 8), torch.float32)\n"
               "    buf2 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k(a, buf0, buf1, buf2, buf3)\n"
               "    return (buf2, buf3)\n"),
      "    def forward(self, a: \"f32[4]\"):\n"
      "        iota: \"i64[8]\" = torch.ops.prims.iota.default(8, start = 0, "
      "step = 1, dtype = torch.int64)\n"
      "        x: \"f32[8]\" = "
      "torch.ops.prims.convert_element_type.default(iota, torch.float32)\n"
      "        mul: \"f32[8]\" = torch.ops.aten.mul.Tensor(x, 0.5)\n"
      "        y: \"f32[8, 1]\" = torch.ops.aten.unsqueeze.default(x, -1)\n"
      "        mul_1: \"f32[8, 1]\" = torch.ops.aten.mul.Tensor(y, 0.5)\n"
      "        end: \"f32[4]\" = torch.ops.aten.slice.Tensor(mul, 0, 4, 8)\n"
      "        end_1: \"f32[4, 1]\" = torch.ops.aten.slice.Tensor(mul_1, 0, "
      "4, 8)\n"
      "        flat: \"f32[4]\" = torch.ops.aten.reshape.default(end_1, [4])\n"
      "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(a, flat)\n"
      "        sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(a, end)\n"
      "        return (sub, add)\n");
  EXPECT_EQ(program.nodes(0), "iota x mul mul_1 add sub");
  EXPECT_TRUE(program.isHigh(0));
}

// A library's complex numbers, shown as pairs that a kernel reads.
TEST(LaunchProof, ComplexNumbersAreReadAsPairs) {
  std::string kernel = cppKernel(
      "k", "'const float*', 'float*', 'float*'",
      "const float* in_ptr0, float* out_ptr0, float* out_ptr1",
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(2L*x0)];\n"
      "    auto tmp1 = in_ptr0[static_cast<int64_t>(1L + 2L*x0)];\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = std::exp(tmp1);\n"
      "    out_ptr1[static_cast<int64_t>(x0)] = std::exp(tmp0);\n  }\n");
  std::string later = cppKernel(
      "l", "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = std::tanh(tmp0);\n  }\n");
  Program program(
      kernel + later +
          call("    a, b = args\n"
               "    buf0 = torch.ops.aten.mul.Tensor(a, b)\n"
               "    buf1 = buf0\n"
               "    assert_size_stride(buf1, (4, ), (1, ), 'mul')\n"
               "    buf2 = torch.ops.aten.view_as_real.default(buf1)\n"
               "    buf3 = buf2\n"
               "    assert_size_stride(buf3, (4, 2), (2, 1), 'view')\n"
               "    buf4 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    buf5 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k(buf3, buf4, buf5)\n"
               "    buf6 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    l(buf4, buf6)\n"
               "    return (buf5, buf6)\n"),
      "    def forward(self, a: \"c64[4]\", b: \"c64[4]\"):\n"
      "        mul: \"c64[4]\" = torch.ops.aten.mul.Tensor(a, b)\n"
      "        pairs: \"f32[4, 2]\" = "
      "torch.ops.aten.view_as_real.default(mul)\n"
      "        real: \"f32[4]\" = torch.ops.aten.select.int(pairs, 1, 0)\n"
      "        imag: \"f32[4]\" = torch.ops.aten.select.int(pairs, 1, 1)\n"
      "        exp: \"f32[4]\" = torch.ops.aten.exp.default(real)\n"
      "        exp_1: \"f32[4]\" = torch.ops.aten.exp.default(imag)\n"
      "        tanh: \"f32[4]\" = torch.ops.aten.tanh.default(exp)\n"
      "        tanh_1: \"f32[4]\" = torch.ops.aten.tanh.default(exp_1)\n"
      "        return (exp, tanh, tanh_1)\n");
  EXPECT_EQ(program.nodes(1), "exp exp_1");
  EXPECT_EQ(program.nodes(2), "tanh_1");
  EXPECT_TRUE(program.isHigh(1) && program.isHigh(2));
}

// A view of what is divided, read where data says: the kernel takes the place
// apart, for which it had a stand-in that no view has.
TEST(LaunchProof, PlacesThatDataGivesAreTakenApart) {
  std::string kernel =
      "k = async_compile.cpp_pybinding(['const int64_t*', 'const float*', "
      "'const float*', 'float*'], r'''\nextern \"C\"  void  kernel(const "
      "int64_t* in_ptr0, const float* in_ptr1, const float* in_ptr2, float* "
      "out_ptr0)\n{\n"
      "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
      "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
      "    auto tmp1 = "
      "in_ptr1[static_cast<int64_t>((static_cast<int64_t>(tmp0) "
      "% static_cast<int64_t>(32L)))];\n"
      "    auto tmp2 = in_ptr2[static_cast<int64_t>((static_cast<int64_t>("
      "c10::div_floor_integer(static_cast<int64_t>(tmp0), "
      "static_cast<int64_t>(4L))) % static_cast<int64_t>(8L)))];\n"
      "    auto tmp3 = tmp1 / tmp2;\n"
      "    out_ptr0[static_cast<int64_t>(x0)] = tmp3;\n  }\n}\n''')\n";
  Program program(
      kernel + call("    i, a, s = args\n"
                    "    buf0 = empty_strided_cpu((4, ), (1, ), "
                    "torch.float32)\n"
                    "    k(i, a, s, buf0)\n"
                    "    return (buf0, )\n"),
      "    def forward(self, i: \"i64[4]\", a: \"f32[8, 4]\", s: \"f32[8, "
      "1]\"):\n"
      "        div: \"f32[8, 4]\" = torch.ops.aten.div.Tensor(a, s)\n"
      "        view: \"f32[32]\" = torch.ops.aten.view.default(div, [32])\n"
      "        index: \"f32[4]\" = torch.ops.aten.index.Tensor(view, [i])\n"
      "        return (index,)\n");
  EXPECT_TRUE(program.isHigh(0));
  EXPECT_TRUE(StringRef(program.nodes(0)).starts_with("div "));
}

/// A kernel that divides an element of `a`, which `i` gives, by that of `s` at
/// the row that a view of `width` columns has it in.
std::string rowKernel(const std::string &name, unsigned width) {
  return name +
         " = async_compile.cpp_pybinding(['const int64_t*', 'const float*', "
         "'const float*', 'float*'], r'''\nextern \"C\"  void  kernel(const "
         "int64_t* in_ptr0, const float* in_ptr1, const float* in_ptr2, float* "
         "out_ptr0)\n{\n"
         "  for(int64_t x0=0; x0<4; x0+=1)\n  {\n"
         "    auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
         "    auto tmp1 = in_ptr1[static_cast<int64_t>(tmp0)];\n"
         "    auto tmp2 = in_ptr2[static_cast<int64_t>(c10::div_floor_integer("
         "static_cast<int64_t>(tmp0), static_cast<int64_t>(" +
         std::to_string(width) +
         "L)))];\n"
         "    auto tmp3 = tmp1 / tmp2;\n"
         "    out_ptr0[static_cast<int64_t>(x0)] = tmp3;\n  }\n}\n''')\n";
}

/// The nodes of such a kernel, their names ending in `suffix`.
std::string rowNodes(const std::string &suffix, unsigned width) {
  std::string rows = std::to_string(64 / width),
              columns = std::to_string(width);
  std::string wide = ": \"f32[" + rows + ", " + columns + "]\" = ";
  return "        v" + suffix + wide + "torch.ops.aten.view.default(a, [" +
         rows + ", " + columns + "])\n        s" + suffix + ": \"f32[" + rows +
         ", 1]\" = torch.ops.aten.slice.Tensor(s, 0, 0, " + rows +
         ")\n        div" + suffix + wide + "torch.ops.aten.div.Tensor(v" +
         suffix + ", s" + suffix + ")\n        view" + suffix +
         ": \"f32[64]\" = torch.ops.aten.view.default(div" + suffix +
         ", [64])\n        index" + suffix +
         ": \"f32[4]\" = torch.ops.aten.index.Tensor(view" + suffix +
         ", [i])\n";
}

constexpr StringLiteral kRowInputs =
    "    def forward(self, i: \"i64[4]\", a: \"f32[64]\", s: \"f32[16, "
    "1]\"):\n";

// Views of other widths of one value: which of them a kernel takes a place
// apart for only a place beyond the first row says.
TEST(LaunchProof, WhatDividesAPlaceTellsNodesApart) {
  for (auto [first, second] :
       {std::pair(8u, 16u), std::pair(16u, 32u), std::pair(16u, 64u)}) {
    Program program(
        rowKernel("ka", first) + rowKernel("kb", second) +
            call("    i, a, s = args\n"
                 "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                 "    ka(i, a, s, buf0)\n"
                 "    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                 "    kb(i, a, s, buf1)\n"
                 "    return (buf0, buf1, )\n"),
        kRowInputs.str() + rowNodes("2", second) + rowNodes("1", first) +
            "        return (index1, index2)\n");
    EXPECT_TRUE(StringRef(program.nodes(0)).contains("div1 index1"))
        << first << ": " << program.nodes(0);
    EXPECT_TRUE(StringRef(program.nodes(1)).contains("div2 index2"))
        << second << ": " << program.nodes(1);
    EXPECT_TRUE(program.isHigh(0) && program.isHigh(1)) << first << second;
  }
}

// A kernel that divides by another number than the graph's only node does.
TEST(LaunchProof, WhatDividesAPlaceRefutesANode) {
  Program program(
      rowKernel("ka", 8) + call("    i, a, s = args\n"
                                "    buf0 = empty_strided_cpu((4, ), (1, ), "
                                "torch.float32)\n"
                                "    ka(i, a, s, buf0)\n"
                                "    return (buf0, )\n"),
      kRowInputs.str() + rowNodes("2", 16) + "        return (index2,)\n");
  EXPECT_FALSE(program.isHigh(0)) << program.nodes(0);
}

// Of places that nothing bounds, what divides them may leave each as it is.
TEST(LaunchProof, WhatDividesPlacesWithoutBoundsProvesNothing) {
  std::string nodes = rowNodes("2", 64);
  nodes.replace(nodes.find("[i]"), 3, "indices = [i]");
  Program program(rowKernel("ka", 32) +
                      call("    i, a, s = args\n"
                           "    buf0 = empty_strided_cpu((4, ), (1, ), "
                           "torch.float32)\n"
                           "    ka(i, a, s, buf0)\n"
                           "    return (buf0, )\n"),
                  kRowInputs.str() + nodes + "        return (index2,)\n");
  EXPECT_FALSE(program.isHigh(0)) << program.nodes(0);
}

// Of a matrix and its transpose the first elements are one, others are not;
// and where several statements store, no other is known to stay.
TEST(LaunchProof, OtherElementsTellRivals) {
  std::string store = "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n";
  auto isHigh = [&](const std::string &stores) {
    std::string kernel =
        tritonKernel("triton_poi_0", "in_ptr0, out_ptr0",
                     "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                     "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                     "    tmp1 = libdevice.tanh(tmp0)\n" +
                         stores);
    Program program(
        kernel + call("    a, = args\n"
                      "    buf0 = empty_strided_cuda((4, 4), (4, 1), "
                      "torch.float32)\n"
                      "    triton_poi_0.run(a, buf0, 16, stream=stream0)\n"
                      "    return (buf0, )\n"),
        "    def forward(self, a: \"f32[4, 4]\"):\n"
        "        permute: \"f32[4, 4]\" = torch.ops.aten.permute.default(a, "
        "[1, 0])\n"
        "        tanh: \"f32[4, 4]\" = torch.ops.aten.tanh.default(permute)\n"
        "        tanh_1: \"f32[4, 4]\" = torch.ops.aten.tanh.default(a)\n"
        "        return (tanh_1, tanh)\n");
    return program.isHigh(0) && program.nodes(0) == "tanh_1";
  };
  EXPECT_TRUE(isHigh(store));
  EXPECT_FALSE(isHigh(store + store));
}

/// A kernel that stores three times what lies at `place` of 32 elements, by so
/// many statements.
std::string tripleKernel(StringRef name, StringRef place, int statements) {
  std::string stores;
  for (int i = 0; i < statements; ++i)
    stores += "out_ptr0[static_cast<int64_t>(x1 + 4L*x0)] = tmp2;\n";
  return cppKernel(
      name, "'const float*', 'float*'", "const float* in_ptr0, float* out_ptr0",
      loop("x0", 8) + loop("x1", 4) +
          "auto tmp0 = in_ptr0[static_cast<int64_t>(" + place.str() +
          ")];\nauto tmp1 = static_cast<float>(3.0);\n"
          "auto tmp2 = float(tmp0 * tmp1);\n" +
          stores + "}\n}\n");
}

// A sum that is looked at from another element than the first is of all
// elements, and not that element's times their number: the nodes of two
// launches were swapped, and said to be sure.
TEST(LaunchProof, SumsAreOfAllElementsWhicheverIsLookedAt) {
  std::string read = "auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 8L*x0)];\n";
  std::string code =
      cppKernel("ka", "'const float*', 'float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0, float* out_ptr1",
                loop("x0", 6) + "float tmp_acc0 = 0;\n" + loop("x1", 8) + read +
                    "tmp_acc0 = tmp_acc0 + tmp0;\n}\n"
                    "out_ptr0[static_cast<int64_t>(x0)] = tmp_acc0;\n" +
                    loop("x1", 8) + read +
                    "auto tmp1 = out_ptr0[static_cast<int64_t>(x0)];\n"
                    "auto tmp2 = float(tmp0 - tmp1);\n"
                    "out_ptr1[static_cast<int64_t>(x1 + 8L*x0)] = tmp2;\n"
                    "}\n}\n") +
      cppKernel("kb", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                loop("x0", 48) +
                    "float tmp_acc0 = 0;\n"
                    "auto tmp0 = "
                    "in_ptr0[static_cast<int64_t>(x0)];\n" +
                    loop("x1", 8) +
                    "tmp_acc0 = tmp_acc0 + tmp0;\n}\n"
                    "auto tmp1 = float(tmp0 - tmp_acc0);\n"
                    "out_ptr0[static_cast<int64_t>(x0)] = tmp1;\n}\n") +
      call("    x, = args\n"
           "    buf0 = empty_strided_cpu((6, 1), (1, 6), torch.float32)\n"
           "    buf1 = empty_strided_cpu((6, 8), (8, 1), torch.float32)\n"
           "    ka(x, buf0, buf1)\n"
           "    buf2 = empty_strided_cpu((6, 8), (8, 1), torch.float32)\n"
           "    kb(x, buf2)\n"
           "    return (buf1, buf2, )\n");
  std::string rows =
      "        sum_1: \"f32[6, 1]\" = torch.ops.aten.sum.dim_IntList(x, [1], "
      "True)\n"
      "        sub: \"f32[6, 8]\" = torch.ops.aten.sub.Tensor(x, sum_1)\n";
  std::string elements =
      "        unsqueeze: \"f32[6, 8, 1]\" = "
      "torch.ops.aten.unsqueeze.default(x, 2)\n"
      "        expand: \"f32[6, 8, 8]\" = torch.ops.aten.expand.default("
      "unsqueeze, [6, 8, 8])\n"
      "        sum_2: \"f32[6, 8]\" = torch.ops.aten.sum.dim_IntList(expand, "
      "[2])\n"
      "        sub_1: \"f32[6, 8]\" = torch.ops.aten.sub.Tensor(x, sum_2)\n";
  for (const std::string &nodes : {rows + elements, elements + rows}) {
    Program program(code, "    def forward(self, x: \"f32[6, 8]\"):\n" + nodes +
                              "        return (sub, sub_1)\n");
    for (auto [launch, wrong] : {std::pair(0, "sub_1"), std::pair(1, "sum_1")})
      EXPECT_FALSE(program.isHigh(launch) &&
                   StringRef(program.nodes(launch)).contains(wrong))
          << launch << ": " << program.nodes(launch);
  }
}

// Of a view and the copy of a transpose the first elements are one: where
// others don't tell which of them the first launch computed, what it was taken
// for doesn't prove the other of the second.
TEST(LaunchProof, WhatIsLeftOfRivalsIsNoProof) {
  auto code = [](int statements) {
    return tripleKernel("ka", "x0 + 8L*x1", statements) +
           tripleKernel("kb", "x1 + 4L*x0", statements) +
           call("    x, = args\n"
                "    buf0 = empty_strided_cpu((8, 4), (4, 1), torch.float32)\n"
                "    ka(x, buf0)\n"
                "    buf1 = empty_strided_cpu((8, 4), (4, 1), torch.float32)\n"
                "    kb(x, buf1)\n"
                "    return (buf1, buf0, )\n");
  };
  std::string plain =
      "        view: \"f32[8, 4]\" = torch.ops.aten.view.default(x, [8, 4])\n"
      "        r: \"f32[8, 4]\" = torch.ops.aten.mul.Tensor(view, 3.0)\n";
  std::string turned =
      "        mul: \"f32[4, 8]\" = torch.ops.aten.mul.Tensor(x, 3.0)\n"
      "        permute: \"f32[8, 4]\" = torch.ops.aten.permute.default(mul, "
      "[1, 0])\n"
      "        clone: \"f32[8, 4]\" = torch.ops.aten.clone.default(permute, "
      "memory_format = torch.contiguous_format)\n";
  for (const std::string &nodes : {plain + turned, turned + plain}) {
    std::string graph = "    def forward(self, x: \"f32[4, 8]\"):\n" + nodes +
                        "        return (r, clone)\n";
    Program told(code(1), graph), untold(code(2), graph);
    for (size_t launch : {0, 1}) {
      EXPECT_TRUE(told.isHigh(launch)) << launch << ": " << told.nodes(launch);
      EXPECT_FALSE(untold.isHigh(launch))
          << launch << ": " << untold.nodes(launch);
    }
    EXPECT_EQ(told.nodes(0), "mul clone");
    EXPECT_EQ(told.nodes(1), "r");
  }
}

// The mean beside a variance is begun by a sum, as one that stands alone is.
TEST(LaunchProof, TheMeanBesideAVarianceMayBeDividedLater) {
  std::string read = "auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 8L*x0)];\n";
  Program program(
      cppKernel("ka", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                loop("x0", 4) + "float tmp_acc0 = 0;\n" + loop("x1", 8) + read +
                    "tmp_acc0 = tmp_acc0 + tmp0;\n}\n"
                    "out_ptr0[static_cast<int64_t>(x0)] = tmp_acc0;\n}\n") +
          cppKernel(
              "kb", "'const float*', 'const float*', 'float*'",
              "const float* in_ptr0, const float* in_ptr1, float* out_ptr0",
              loop("x0", 4) + loop("x1", 8) + read +
                  "auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
                  "auto tmp2 = static_cast<float>(8.0);\n"
                  "auto tmp3 = tmp1 / tmp2;\n"
                  "auto tmp4 = float(tmp0 - tmp3);\n"
                  "out_ptr0[static_cast<int64_t>(x1 + 8L*x0)] = tmp4;\n"
                  "}\n}\n") +
          call("    a, = args\n"
               "    buf0 = empty_strided_cpu((4, 1), (1, 4), torch.float32)\n"
               "    ka(a, buf0)\n"
               "    buf1 = empty_strided_cpu((4, 8), (8, 1), torch.float32)\n"
               "    kb(a, buf0, buf1)\n"
               "    return (buf1, )\n"),
      "    def forward(self, a: \"f32[4, 8]\"):\n"
      "        var_mean = torch.ops.aten.var_mean.correction(a, [1], "
      "correction "
      "= 0, keepdim = True)\n"
      "        getitem: \"f32[4, 1]\" = var_mean[1];  var_mean = None\n"
      "        sub: \"f32[4, 8]\" = torch.ops.aten.sub.Tensor(a, getitem)\n"
      "        return (sub,)\n");
  EXPECT_EQ(program.nodes(0), "var_mean");
  EXPECT_EQ(program.nodes(1), "var_mean~ sub");
  EXPECT_TRUE(program.isHigh(0) && program.isHigh(1));
}

// What may be stored in place of a value may be so in place of its copy.
TEST(LaunchProof, WhatRivalsAValueRivalsItsCopy) {
  Program program(
      cppKernel("ka", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                loop("x0", 4) + loop("x1", 4) +
                    "auto tmp0 = in_ptr0[static_cast<int64_t>(x0 + 4L*x1)];\n"
                    "auto tmp1 = std::tanh(tmp0);\n"
                    "out_ptr0[static_cast<int64_t>(x1 + 4L*x0)] = tmp1;\n"
                    "out_ptr0[static_cast<int64_t>(x1 + 4L*x0)] = tmp1;\n"
                    "}\n}\n") +
          call("    a, = args\n"
               "    buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)\n"
               "    ka(a, buf0)\n"
               "    return (buf0, )\n"),
      "    def forward(self, a: \"f32[4, 4]\"):\n"
      "        tanh: \"f32[4, 4]\" = torch.ops.aten.tanh.default(a)\n"
      "        permute: \"f32[4, 4]\" = torch.ops.aten.permute.default(a, [1, "
      "0])\n"
      "        tanh_1: \"f32[4, 4]\" = torch.ops.aten.tanh.default(permute)\n"
      "        clone: \"f32[4, 4]\" = torch.ops.aten.clone.default(tanh)\n"
      "        neg: \"f32[4, 4]\" = torch.ops.aten.neg.default(tanh_1)\n"
      "        return (neg, clone)\n");
  EXPECT_FALSE(program.isHigh(0)) << program.nodes(0);
}

// Sizes that are symbols have the values that the harness was made for.
TEST(LaunchProof, SymbolsHaveTheSizesOfTheHarness) {
  Program program(
      call("    arg0_1, arg1_1, arg2_1 = args\n"
           "    s77 = arg0_1\n"
           "    buf0 = empty_strided_cuda((s77, 8), (8, 1), torch.float32)\n"
           "    extern_kernels.mm(arg1_1, arg2_1, out=buf0)\n"
           "    return (buf0, )\n") +
          "def get_args():\n"
          "    arg0_1 = 6\n"
          "    arg1_1 = rand_strided((6, 4), (4, 1), device='cuda:0', "
          "dtype=torch.float32)\n"
          "    arg2_1 = rand_strided((4, 8), (8, 1), device='cuda:0', "
          "dtype=torch.float32)\n"
          "    return [arg0_1, arg1_1, arg2_1]\n",
      "    def forward(self, arg0_1: \"Sym(s77)\", arg1_1: \"f32[s77, 4]\", "
      "arg2_1: \"f32[4, 8]\"):\n"
      "        mm: \"f32[s77, 8]\" = torch.ops.aten.mm.default(arg1_1, "
      "arg2_1)\n"
      "        return (mm,)\n");
  EXPECT_EQ(program.nodes(0), "mm");
  EXPECT_EQ(program.map.launches[0].flops, 2u * 6 * 4 * 8);
  EXPECT_EQ(program.map.launches[0].bytesRead, 4u * (24 + 32));
  EXPECT_EQ(program.map.launches[0].bytesWritten, 4u * 48);
}
// An offset that is a name for an expression of sizes.
TEST(LaunchProof, NamesStandForTheSizesTheyWereGiven) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, out_ptr0, ks0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'ks0': 'i64'",
                   "    tmp0 = tl.load(in_ptr0 + (x0 + ks0), xmask)\n"
                   "    tmp1 = libdevice.tanh(tmp0)\n"
                   "    tl.store(out_ptr0 + (x0), tmp1, xmask)\n");
  Program program(
      kernel +
          call("    arg0_1, arg1_1 = args\n"
               "    s77 = arg0_1\n"
               "    ps0 = 4*s77\n"
               "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(arg1_1, buf0, ps0, 4, stream=stream0)\n"
               "    return (buf0, )\n") +
          "def get_args():\n"
          "    arg0_1 = 6\n"
          "    arg1_1 = rand_strided((7, 4), (4, 1), device='cuda:0', "
          "dtype=torch.float32)\n"
          "    return [arg0_1, arg1_1]\n",
      "    def forward(self, arg0_1: \"Sym(s77)\", arg1_1: \"f32[s77 + 1, "
      "4]\"):\n"
      "        select: \"f32[4]\" = torch.ops.aten.select.int(arg1_1, 0, 0)\n"
      "        tanh: \"f32[4]\" = torch.ops.aten.tanh.default(select)\n"
      "        select_1: \"f32[4]\" = torch.ops.aten.select.int(arg1_1, 0, 6)\n"
      "        tanh_1: \"f32[4]\" = torch.ops.aten.tanh.default(select_1)\n"
      "        return (tanh, tanh_1)\n");
  EXPECT_EQ(program.nodes(0), "tanh_1");
  EXPECT_TRUE(program.isHigh(0));
}

// The kernel fills a second buffer for what a library adds to: no record names
// the constant, and an earlier launch has it already.
TEST(LaunchProof, ConstantsAreMadeOnceMore) {
  std::string kernel =
      tritonKernel("triton_poi_0", "out_ptr0", "'out_ptr0': '*fp32'",
                   "    tmp0 = tl.full([1], 0.0, tl.float32)\n"
                   "    tl.store(out_ptr0 + (x0), tmp0, xmask)\n");
  Program program(
      kernel +
          call("    a, b, c = args\n"
               "    buf0 = empty_strided_cuda((6, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(buf0, 6, stream=stream0)\n"
               "    torch.ops.aten.scatter_reduce_.two(buf0, 0, a, b, "
               "reduce='sum')\n"
               "    buf1 = empty_strided_cuda((6, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(buf1, 6, stream=stream0)\n"
               "    torch.ops.aten.scatter_reduce_.two(buf1, 0, a, c, "
               "reduce='sum')\n"
               "    return (buf0, buf1)\n"),
      "    def forward(self, a: \"i64[4]\", b: \"f32[4]\", c: \"f32[4]\"):\n"
      "        full: \"f32[6]\" = torch.ops.aten.full.default([6], 0)\n"
      "        scatter_add: \"f32[6]\" = "
      "torch.ops.aten.scatter_add.default(full, 0, a, b)\n"
      "        scatter_add_1: \"f32[6]\" = "
      "torch.ops.aten.scatter_add.default(full, 0, a, c)\n"
      "        return (scatter_add, scatter_add_1)\n");
  EXPECT_EQ(program.nodes(0), "full");
  EXPECT_EQ(program.nodes(1), "scatter_add");
  EXPECT_EQ(program.nodes(2), "full");
  EXPECT_TRUE(program.isHigh(2));
  EXPECT_TRUE(program.map.launches[2].nodes[0].recomputed);
  EXPECT_EQ(program.nodes(3), "scatter_add_1");
  EXPECT_TRUE(program.isHigh(3));
}

// The indices of a sort have no type in the wrapper.
TEST(LaunchProof, MembersOfALibrarysResultsHaveTheirTypes) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, in_ptr1, out_ptr0",
                   "'in_ptr0': '*fp32', 'in_ptr1': '*i64', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tmp1 = tl.load(in_ptr1 + (x0), xmask)\n"
                   "    tmp2 = tmp1.to(tl.float32)\n"
                   "    tmp3 = tmp0 + tmp2\n"
                   "    tl.store(out_ptr0 + (x0), tmp3, xmask)\n");
  Program program(
      kernel +
          call("    a, = args\n"
               "    buf0 = torch.ops.aten.sort.stable(a, stable=False, dim=0)\n"
               "    buf1 = buf0[0]\n"
               "    assert_size_stride(buf1, (8, ), (1, ))\n"
               "    buf2 = buf0[1]\n"
               "    assert_size_stride(buf2, (8, ), (1, ))\n"
               "    buf3 = empty_strided_cuda((8, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(buf1, buf2, buf3, 8, stream=stream0)\n"
               "    return (buf3, )\n"),
      "    def forward(self, a: \"f32[8]\"):\n"
      "        sort = torch.ops.aten.sort.default(a)\n"
      "        getitem: \"f32[8]\" = sort[0]\n"
      "        getitem_1: \"i64[8]\" = sort[1]\n"
      "        add: \"f32[8]\" = torch.ops.aten.add.Tensor(getitem, "
      "getitem_1)\n"
      "        return (add,)\n");
  EXPECT_EQ(program.nodes(1), "add");
  EXPECT_EQ(program.map.launches[1].bytesRead, 8u * 4 + 8u * 8);
}

// A copy for a second product has the first element of the first one's: what
// the other dimensions hold, and which product is still to come, tell them
// apart.
TEST(LaunchProof, CopiesOfOneValueAreForWhatIsStillToCome) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, out_ptr0",
                   "'in_ptr0': '*fp32', 'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tl.store(out_ptr0 + (x0), tmp0, xmask)\n");
  auto buffer = [](const std::string &name) {
    return "    " + name +
           " = empty_strided_cuda((2, 3, 3), (9, 3, 1), torch.float32)\n";
  };
  auto copy = [](const std::string &from, const std::string &to) {
    return "    triton_poi_0.run(" + from + ", " + to +
           ", 18, stream=stream0)\n";
  };
  std::string body = "    a, b = args\n";
  for (StringRef name : {"buf0", "buf1", "buf2", "buf3", "buf4", "buf5"})
    body += buffer(name.str());
  body += copy("a", "buf0") + copy("b", "buf1") +
          "    extern_kernels.bmm(buf0, buf1, out=buf2)\n" + copy("a", "buf3") +
          copy("b", "buf4") +
          "    extern_kernels.bmm(buf3, buf4, out=buf5)\n"
          "    return (buf2, buf5)\n";
  auto view = [](StringRef name, StringRef of, StringRef dims) {
    return ("        " + name +
            ": \"f32[2, 3, 3]\" = torch.ops.aten.permute.default(" + of + ", " +
            dims + ")\n")
        .str();
  };
  Program program(
      kernel + call(body),
      "    def forward(self, a: \"f32[3, 3, 2]\", b: \"f32[3, 3, 2]\"):\n" +
          view("a_0", "a", "[2, 0, 1]") + view("b_0", "b", "[2, 1, 0]") +
          "        bmm: \"f32[2, 3, 3]\" = torch.ops.aten.bmm.default(a_0, "
          "b_0)\n" +
          view("a_1", "a", "[2, 1, 0]") + view("b_1", "b", "[2, 0, 1]") +
          "        bmm_1: \"f32[2, 3, 3]\" = torch.ops.aten.bmm.default(a_1, "
          "b_1)\n"
          "        return (bmm, bmm_1)\n");
  EXPECT_EQ(program.nodes(2), "bmm");
  EXPECT_EQ(program.nodes(5), "bmm_1");
}

// A loop that starts with one buffer as two of its values reads both by the
// names of their parameters.
TEST(LaunchProof, OneBufferMayBeTwoInputsOfABody) {
  std::string kernel =
      tritonKernel("triton_poi_0", "in_ptr0, in_ptr1, out_ptr0",
                   "'in_ptr0': '*fp32', 'in_ptr1': '*fp32', "
                   "'out_ptr0': '*fp32'",
                   "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
                   "    tmp1 = tl.load(in_ptr1 + (x0), xmask)\n"
                   "    tmp2 = tmp0 * tmp0\n"
                   "    tmp3 = tmp2 - tmp1\n"
                   "    tl.store(out_ptr0 + (x0), tmp3, xmask)\n");
  Program program(
      kernel +
          "def true_graph_0(args):\n"
          "    true_graph_0_a, true_graph_0_b = args\n"
          "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
          "    triton_poi_0.run(true_graph_0_a, true_graph_0_b, buf0, 4, "
          "stream=stream0)\n"
          "    return (buf0, )\n" +
          call("    x, = args\n"
               "    true_graph_0_args = [x, x]\n"
               "    (buf1,) = true_graph_0(true_graph_0_args)\n"
               "    return (buf1, )\n"),
      "    def forward(self, x: \"f32[4]\"):\n"
      "        gt: \"b8[]\" = torch.ops.aten.gt.Scalar(x, 0)\n"
      "        t = self.true_graph_0\n"
      "        cond = torch.ops.higher_order.cond(gt, t, t, (x, x))\n"
      "        z: \"f32[4]\" = cond[0]\n"
      "        return (z,)\n"
      "    class true_graph_0(torch.nn.Module):\n"
      "        def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
      "            mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(a, a)\n"
      "            sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(mul, b)\n"
      "            return (sub,)\n");
  EXPECT_EQ(program.nodes(0), "mul sub");
  EXPECT_TRUE(program.isHigh(0));
}

// The same view is taken on both sides of a write to a part of what it shows.
TEST(LaunchProof, WhatIsWrittenThroughAViewIsTakenFromThereOn) {
  std::string kernel =
      cppKernel("k", "'const float*', 'float*', 'float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0, float* out_ptr1, "
                "float* out_ptr2",
                loop("x0", 16) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                    "  auto tmp1 = std::sin(tmp0);\n"
                    "  out_ptr0[static_cast<int64_t>(x0)] = tmp1;\n}\n" +
                    loop("x0", 8) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                    "  auto tmp1 = std::sin(tmp0);\n"
                    "  auto tmp2 = std::tanh(tmp1);\n"
                    "  out_ptr1[static_cast<int64_t>(x0)] = tmp2;\n}\n" +
                    loop("x0", 4) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(5L*x0)];\n"
                    "  auto tmp1 = std::sin(tmp0);\n"
                    "  auto tmp2 = static_cast<float>(0.5);\n"
                    "  auto tmp3 = float(tmp1 * tmp2);\n"
                    "  out_ptr0[static_cast<int64_t>(5L*x0)] = tmp3;\n}\n" +
                    loop("x0", 8) +
                    "  auto tmp0 = out_ptr0[static_cast<int64_t>(x0)];\n"
                    "  auto tmp1 = std::exp(tmp0);\n"
                    "  out_ptr2[static_cast<int64_t>(x0)] = tmp1;\n}\n");
  std::string later =
      cppKernel("later", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                loop("x0", 4) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(1L + 4L*x0)];\n"
                    "  auto tmp1 = std::cos(tmp0);\n"
                    "  out_ptr0[static_cast<int64_t>(x0)] = tmp1;\n}\n");
  Program program(
      kernel + later +
          call("    x, = args\n"
               "    buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)\n"
               "    buf1 = empty_strided_cpu((2, 4), (4, 1), torch.float32)\n"
               "    buf2 = empty_strided_cpu((2, 4), (4, 1), torch.float32)\n"
               "    k(x, buf0, buf1, buf2)\n"
               "    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    later(buf0, buf3)\n"
               "    return (buf1, buf2, buf3, )\n"),
      "    def forward(self, x: \"f32[4, 4]\"):\n"
      "        sin: \"f32[4, 4]\" = torch.ops.aten.sin.default(x)\n"
      "        slice_1: \"f32[2, 4]\" = torch.ops.aten.slice.Tensor(sin, 0, 0, "
      "2)\n"
      "        tanh: \"f32[2, 4]\" = torch.ops.aten.tanh.default(slice_1)\n"
      "        diagonal: \"f32[4]\" = torch.ops.aten.diagonal.default(sin)\n"
      "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(diagonal, 0.5)\n"
      "        diagonal_1: \"f32[4]\" = torch.ops.aten.diagonal.default(sin)\n"
      "        copy_: \"f32[4]\" = torch.ops.aten.copy_.default(diagonal_1, "
      "mul)\n"
      "        exp: \"f32[2, 4]\" = torch.ops.aten.exp.default(slice_1)\n"
      "        select: \"f32[4]\" = torch.ops.aten.select.int(sin, 1, 1)\n"
      "        cos: \"f32[4]\" = torch.ops.aten.cos.default(select)\n"
      "        return (tanh, exp, cos)\n");
  EXPECT_EQ(program.nodes(0), "sin tanh mul copy_ exp");
  EXPECT_TRUE(program.isHigh(0));
  EXPECT_EQ(program.nodes(1), "cos");
  EXPECT_TRUE(program.isHigh(1));
  // The view that is taken twice stands in the map once.
  EXPECT_EQ(
      llvm::count_if(program.map.notLaunched,
                     [](const auto &left) { return left.name == "slice_1"; }),
      1);
}

TEST(LaunchProof, RepetitionsAreReadWhereTheyStand) {
  std::string kernel = tritonKernel(
      "triton_poi_0", "in_ptr0, in_ptr1, out_ptr0, out_ptr1", kPointers.str(),
      "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
      "    tmp1 = tl.load(in_ptr1 + (1 + (x0 % 3)), xmask)\n"
      "    tmp2 = tl_math.cos(tmp1)\n"
      "    tmp3 = tmp0 * tmp2\n"
      "    tmp4 = tmp0 + tmp2\n"
      "    tl.store(out_ptr0 + (x0), tmp3, xmask)\n"
      "    tl.store(out_ptr1 + (x0), tmp4, xmask)\n");
  Program program(
      kernel +
          call("    x, angles = args\n"
               "    buf0 = empty_strided_cuda((2, 6), (6, 1), torch.float32)\n"
               "    buf1 = empty_strided_cuda((2, 6), (6, 1), torch.float32)\n"
               "    triton_poi_0.run(x, angles, buf0, buf1, 12, "
               "stream=stream0)\n"
               "    return (buf0, buf1)\n"),
      "    def forward(self, x: \"f32[2, 6]\", angles: \"f32[4]\"):\n"
      "        slice_1: \"f32[3]\" = torch.ops.aten.slice.Tensor(angles, 0, 1, "
      "4)\n"
      "        cos: \"f32[3]\" = torch.ops.aten.cos.default(slice_1)\n"
      "        repeat: \"f32[2, 6]\" = torch.ops.aten.repeat.default(cos, [2, "
      "2])\n"
      "        add: \"f32[2, 6]\" = torch.ops.aten.add.Tensor(x, repeat)\n"
      "        mul: \"f32[2, 6]\" = torch.ops.aten.mul.Tensor(x, repeat)\n"
      "        return (mul, add)\n");
  EXPECT_EQ(program.nodes(0), "cos repeat add mul");
  EXPECT_TRUE(program.isHigh(0));
}

TEST(LaunchProof, PartsThatAreCopiesAreReadBack) {
  std::string kernel = cppKernel(
      "k",
      "'const float*', 'const float*', 'const float*', 'const float*', "
      "'float*', 'float*', 'float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, const float* in_ptr2, const "
      "float* in_ptr3, float* out_ptr0, float* out_ptr1, float* out_ptr2, "
      "float* out_ptr3",
      loop("x0", 2) + loop("x1", 2) +
          "  auto tmp0 = in_ptr0[static_cast<int64_t>(x1 + 2L*x0)];\n"
          "  out_ptr0[static_cast<int64_t>(x1 + 4L*x0)] = tmp0;\n}\n}\n" +
          loop("x0", 2) + loop("x1", 2) +
          "  auto tmp0 = in_ptr1[static_cast<int64_t>(2L + x1 + 4L*x0)];\n"
          "  out_ptr1[static_cast<int64_t>(x1 + 4L*x0)] = tmp0;\n}\n}\n" +
          loop("x0", 4) +
          "  auto tmp0 = in_ptr2[static_cast<int64_t>(x0)];\n"
          "  auto tmp1 = in_ptr3[static_cast<int64_t>(x0)];\n"
          "  auto tmp2 = in_ptr2[static_cast<int64_t>(4L + x0)];\n"
          "  auto tmp3 = in_ptr3[static_cast<int64_t>(4L + x0)];\n"
          "  auto tmp4 = float(tmp0 + tmp1);\n"
          "  auto tmp5 = float(tmp2 + tmp3);\n"
          "  auto tmp6 = float(tmp4 + tmp5);\n"
          "  auto tmp7 = float(tmp4 * tmp0);\n"
          "  auto tmp8 = float(tmp5 * tmp2);\n"
          "  auto tmp9 = float(tmp7 + tmp8);\n"
          "  out_ptr2[static_cast<int64_t>(x0)] = tmp9;\n"
          "  out_ptr3[static_cast<int64_t>(x0)] = tmp6;\n}\n");
  Program program(
      kernel +
          call("    a, b, d = args\n"
               "    buf2 = empty_strided_cpu((2, 4), (4, 1), torch.float32)\n"
               "    buf0 = reinterpret_tensor(buf2, (2, 2), (4, 1), 0)\n"
               "    buf1 = reinterpret_tensor(buf2, (2, 2), (4, 1), 2)\n"
               "    buf3 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    buf4 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k(a, b, d, buf2, buf0, buf1, buf3, buf4)\n"
               "    return (buf3, buf4, )\n"),
      "    def forward(self, a: \"f32[2, 2]\", b: \"f32[2, 4]\", d: \"f32[2, "
      "4]\"):\n"
      "        slice_1: \"f32[2, 2]\" = torch.ops.aten.slice.Tensor(b, 1, 2, "
      "4)\n"
      "        cat: \"f32[2, 4]\" = torch.ops.aten.cat.default([a, slice_1], "
      "1)\n"
      "        add: \"f32[2, 4]\" = torch.ops.aten.add.Tensor(d, cat)\n"
      "        sum_1: \"f32[4]\" = torch.ops.aten.sum.dim_IntList(add, [0])\n"
      "        mul: \"f32[2, 4]\" = torch.ops.aten.mul.Tensor(add, d)\n"
      "        sum_2: \"f32[4]\" = torch.ops.aten.sum.dim_IntList(mul, [0])\n"
      "        return (sum_2, sum_1)\n");
  EXPECT_EQ(program.nodes(0), "cat add sum_1 mul sum_2");
  EXPECT_TRUE(program.isHigh(0));
}

// Neither value is known, and both come from what is read.
TEST(LaunchProof, ResultsAreStoredRatherThanWhatLeadsToOthers) {
  std::string kernel = cppKernel(
      "k", "'const float*', 'const float*', 'float*', 'float*'",
      "const float* in_ptr0, const float* in_ptr1, float* out_ptr0, float* "
      "out_ptr1",
      "float tmp_acc0 = 0;\n" + loop("x0", 4) +
          "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
          "  auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
          "  auto tmp2 = float(tmp0 - tmp1);\n"
          "  auto tmp3 = opaque(tmp2);\n"
          "  auto tmp4 = another(tmp2);\n"
          "  tmp_acc0 = tmp_acc0 + tmp3;\n"
          "  out_ptr0[static_cast<int64_t>(x0)] = tmp4;\n}\n"
          "out_ptr1[static_cast<int64_t>(0L)] = tmp_acc0;\n");
  Program program(
      kernel +
          call("    a, b = args\n"
               "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cpu((1, ), (1, ), torch.float32)\n"
               "    k(a, b, buf0, buf1)\n"
               "    return (buf1, buf0, )\n"),
      "    def forward(self, a: \"f32[4]\", b: \"f32[4]\"):\n"
      "        sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(a, b)\n"
      "        abs_1: \"f32[4]\" = torch.ops.aten.abs.default(sub)\n"
      "        sum_1: \"f32[1]\" = torch.ops.aten.sum.dim_IntList(abs_1, [0], "
      "True)\n"
      "        sign: \"f32[4]\" = torch.ops.aten.sign.default(sub)\n"
      "        return (sum_1, sign)\n");
  EXPECT_EQ(program.nodes(0), "sub abs_1 sum_1 sign");
  EXPECT_FALSE(program.isHigh(0));
}

// Both exponentials come from all that is read.
TEST(LaunchProof, MasksOfTheLeastNumberLeaveWhatTheyAreAddedTo) {
  std::string kernel = tritonKernel(
      "triton_poi_0", "in_ptr0, in_ptr1, out_ptr0, out_ptr1", kPointers.str(),
      "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
      "    tmp1 = tl.load(in_ptr1 + (x0), xmask)\n"
      "    tmp2 = 0.0\n"
      "    tmp3 = tmp1 > tmp2\n"
      "    tmp4 = -3.4028234663852886e+38\n"
      "    tmp5 = tl.where(tmp3, tmp2, tmp4)\n"
      "    tmp6 = tmp0 + tmp5\n"
      "    tmp7 = tmp0 - tmp5\n"
      "    tmp8 = tl_math.exp(tmp6)\n"
      "    tmp9 = tl_math.exp(tmp7)\n"
      "    tl.store(out_ptr0 + (x0), tmp9, xmask)\n"
      "    tl.store(out_ptr1 + (x0), tmp8, xmask)\n");
  Program program(
      kernel +
          call("    x, mask = args\n"
               "    buf0 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cuda((4, ), (1, ), torch.float32)\n"
               "    triton_poi_0.run(x, mask, buf0, buf1, 4, "
               "stream=stream0)\n"
               "    return (buf0, buf1)\n"),
      "    def forward(self, x: \"f32[4]\", mask: \"f32[4]\"):\n"
      "        gt: \"b8[4]\" = torch.ops.aten.gt.Scalar(mask, 0)\n"
      "        full: \"f32[]\" = torch.ops.aten.full.default([], 0.0)\n"
      "        full_1: \"f32[]\" = torch.ops.aten.full.default([], "
      "-3.4028234663852886e+38)\n"
      "        where: \"f32[4]\" = torch.ops.aten.where.self(gt, full, "
      "full_1)\n"
      "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(x, where)\n"
      "        sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(x, where)\n"
      "        exp: \"f32[4]\" = torch.ops.aten.exp.default(add)\n"
      "        exp_1: \"f32[4]\" = torch.ops.aten.exp.default(sub)\n"
      "        return (exp_1, exp)\n");
  EXPECT_EQ(program.nodes(0), "gt full full_1 where add sub exp exp_1");
  EXPECT_TRUE(program.isHigh(0));
}

// What a write gives is the view that it wrote through, not all of the tensor.
TEST(LaunchProof, AWriteThroughAViewGivesThatView) {
  auto program = [](const std::string &row, const std::string &factor) {
    return Program(
        cppKernel("k", "'const float*', 'float*'",
                  "const float* in_ptr0, float* out_ptr0",
                  loop("x0", 4) +
                      "  auto tmp0 = in_ptr0[static_cast<int64_t>(" + row +
                      " + x0)];\n"
                      "  auto tmp1 = std::sin(tmp0);\n"
                      "  auto tmp2 = static_cast<float>(" +
                      factor +
                      ");\n"
                      "  auto tmp3 = float(tmp1 * tmp2);\n"
                      "  auto tmp4 = std::exp(tmp3);\n"
                      "  out_ptr0[static_cast<int64_t>(x0)] = tmp4;\n}\n") +
            call("    x, = args\n"
                 "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
                 "    k(x, buf0)\n"
                 "    return (buf0, )\n"),
        "    def forward(self, x: \"f32[2, 4]\"):\n"
        "        sin: \"f32[2, 4]\" = torch.ops.aten.sin.default(x)\n"
        "        row: \"f32[4]\" = torch.ops.aten.select.int(sin, 0, 1)\n"
        "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(row, 0.5)\n"
        "        copy_: \"f32[4]\" = torch.ops.aten.copy_.default(row, mul)\n"
        "        exp: \"f32[4]\" = torch.ops.aten.exp.default(copy_)\n"
        "        return (exp,)\n");
  };
  Program right = program("4L", "0.5");
  EXPECT_EQ(right.nodes(0), "sin mul copy_ exp");
  EXPECT_TRUE(right.isHigh(0));
  EXPECT_FALSE(program("0L", "1.0").isHigh(0));
}

// A write to what a write gave is one to the same tensor.
TEST(LaunchProof, AViewOfWhatAWriteGaveIsOneOfTheTensor) {
  auto program = [](const std::string &factor) {
    return Program(
        cppKernel("k", "'const float*', 'float*'",
                  "const float* in_ptr0, float* out_ptr0",
                  "  auto tmp0 = in_ptr0[static_cast<int64_t>(4L)];\n"
                  "  auto tmp1 = std::sin(tmp0);\n"
                  "  auto tmp2 = static_cast<float>(" +
                      factor +
                      ");\n"
                      "  auto tmp3 = float(tmp1 * tmp2);\n"
                      "  auto tmp4 = std::exp(tmp3);\n"
                      "  out_ptr0[static_cast<int64_t>(0L)] = tmp4;\n") +
            call("    x, = args\n"
                 "    buf0 = empty_strided_cpu((), (), torch.float32)\n"
                 "    k(x, buf0)\n"
                 "    return (buf0, )\n"),
        "    def forward(self, x: \"f32[2, 4]\"):\n"
        "        sin: \"f32[2, 4]\" = torch.ops.aten.sin.default(x)\n"
        "        row: \"f32[4]\" = torch.ops.aten.select.int(sin, 0, 1)\n"
        "        half: \"f32[4]\" = torch.ops.aten.mul.Tensor(row, 0.5)\n"
        "        third: \"f32[4]\" = torch.ops.aten.mul.Tensor(row, 0.3)\n"
        "        copy_: \"f32[4]\" = torch.ops.aten.copy_.default(row, half)\n"
        "        copy__1: \"f32[4]\" = torch.ops.aten.copy_.default(copy_, "
        "third)\n"
        "        again: \"f32[4]\" = torch.ops.aten.select.int(sin, 0, 1)\n"
        "        one: \"f32[]\" = torch.ops.aten.select.int(again, 0, 0)\n"
        "        exp: \"f32[]\" = torch.ops.aten.exp.default(one)\n"
        "        return (exp,)\n");
  };
  Program right = program("0.3");
  EXPECT_TRUE(right.isHigh(0)) << right.nodes(0);
  EXPECT_FALSE(program("0.5").isHigh(0));
}

// Element 1 of a matrix is not on its diagonal, whatever lies a fifth along it.
TEST(LaunchProof, WhatIsBesideAWriteIsWhatItWas) {
  Program program(
      cppKernel("k", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                "  auto tmp0 = in_ptr0[static_cast<int64_t>(1L)];\n"
                "  auto tmp1 = std::sin(tmp0);\n"
                "  auto tmp2 = std::exp(tmp1);\n"
                "  out_ptr0[static_cast<int64_t>(0L)] = tmp2;\n") +
          call("    x, = args\n"
               "    buf0 = empty_strided_cpu((), (), torch.float32)\n"
               "    k(x, buf0)\n"
               "    return (buf0, )\n"),
      "    def forward(self, x: \"f32[4, 4]\"):\n"
      "        sin: \"f32[4, 4]\" = torch.ops.aten.sin.default(x)\n"
      "        diagonal: \"f32[4]\" = torch.ops.aten.diagonal.default(sin)\n"
      "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(diagonal, 0.5)\n"
      "        copy_: \"f32[4]\" = torch.ops.aten.copy_.default(diagonal, "
      "mul)\n"
      "        row: \"f32[4]\" = torch.ops.aten.select.int(sin, 0, 0)\n"
      "        one: \"f32[]\" = torch.ops.aten.select.int(row, 0, 1)\n"
      "        exp: \"f32[]\" = torch.ops.aten.exp.default(one)\n"
      "        return (exp,)\n");
  EXPECT_TRUE(program.isHigh(0)) << program.nodes(0);
}

// In the order of the tensor's elements those that the view shows stand at no
// equal steps: 4, 1, 5.
TEST(LaunchProof, AWriteThroughAViewOfAnotherOrderIsFollowed) {
  auto program = [](bool isWritten) {
    return Program(
        cppKernel(
            "k", "'const float*', 'float*'",
            "const float* in_ptr0, float* out_ptr0",
            std::string("  auto tmp0 = in_ptr0[static_cast<int64_t>(2L)];\n"
                        "  auto tmp1 = std::sin(tmp0);\n"
                        "  auto tmp2 = static_cast<float>(") +
                (isWritten ? "0.5" : "1.0") +
                ");\n"
                "  auto tmp3 = float(tmp1 * tmp2);\n"
                "  auto tmp4 = std::exp(tmp3);\n"
                "  out_ptr0[static_cast<int64_t>(0L)] = tmp4;\n") +
            call("    x, = args\n"
                 "    buf0 = empty_strided_cpu((), (), torch.float32)\n"
                 "    k(x, buf0)\n"
                 "    return (buf0, )\n"),
        "    def forward(self, x: \"f32[2, 4][1, 2]cpu\"):\n"
        "        sin: \"f32[2, 4][1, 2]cpu\" = torch.ops.aten.sin.default(x)\n"
        "        permute: \"f32[4, 2][2, 1]cpu\" = "
        "torch.ops.aten.permute.default(sin, [1, 0])\n"
        "        flat: \"f32[8][1]cpu\" = "
        "torch.ops.aten.view.default(permute, [8])\n"
        "        part: \"f32[3][1]cpu\" = "
        "torch.ops.aten.slice.Tensor(flat, 0, 1, 4)\n"
        "        mul: \"f32[3][1]cpu\" = torch.ops.aten.mul.Tensor(part, 0.5)\n"
        "        copy_: \"f32[3][1]cpu\" = "
        "torch.ops.aten.copy_.default(part, mul)\n"
        "        row: \"f32[4][2]cpu\" = torch.ops.aten.select.int(sin, 0, 0)\n"
        "        one: \"f32[][]cpu\" = torch.ops.aten.select.int(row, 0, 1)\n"
        "        exp: \"f32[][]cpu\" = torch.ops.aten.exp.default(one)\n"
        "        return (exp,)\n");
  };
  Program right = program(true);
  EXPECT_TRUE(right.isHigh(0)) << right.nodes(0);
  EXPECT_FALSE(program(false).isHigh(0));
}

// A type that says otherwise does not give a vector a diagonal, from which
// there would be another way to what the kernel computes.
TEST(LaunchProof, AVectorHasNoDiagonal) {
  Program program(
      cppKernel("k", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                "  auto tmp0 = in_ptr0[static_cast<int64_t>(1L)];\n"
                "  auto tmp1 = std::exp(tmp0);\n"
                "  out_ptr0[static_cast<int64_t>(0L)] = tmp1;\n") +
          call("    x, = args\n"
               "    buf0 = empty_strided_cpu((), (), torch.float32)\n"
               "    k(x, buf0)\n"
               "    return (buf0, )\n"),
      "    def forward(self, x: \"f32[4]\"):\n"
      "        diagonal: \"f32[]\" = torch.ops.aten.diagonal.default(x, -1)\n"
      "        exp: \"f32[]\" = torch.ops.aten.exp.default(diagonal)\n"
      "        one: \"f32[]\" = torch.ops.aten.select.int(x, 0, 1)\n"
      "        exp_1: \"f32[]\" = torch.ops.aten.exp.default(one)\n"
      "        return (exp, exp_1)\n");
  EXPECT_EQ(program.nodes(0), "exp_1");
  EXPECT_TRUE(program.isHigh(0));
}

// Nothing of a tensor is what an empty part of it shows.
TEST(LaunchProof, AWriteThroughAnEmptyViewWritesNothing) {
  Program program(
      cppKernel("k", "'const float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0",
                loop("x0", 4) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                    "  auto tmp1 = std::sin(tmp0);\n"
                    "  auto tmp2 = std::exp(tmp1);\n"
                    "  out_ptr0[static_cast<int64_t>(x0)] = tmp2;\n}\n") +
          call("    x, = args\n"
               "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k(x, buf0)\n"
               "    return (buf0, )\n"),
      "    def forward(self, x: \"f32[4]\"):\n"
      "        sin: \"f32[4]\" = torch.ops.aten.sin.default(x)\n"
      "        part: \"f32[0]\" = torch.ops.aten.slice.Tensor(sin, 0, 0, 0)\n"
      "        mul: \"f32[0]\" = torch.ops.aten.mul.Tensor(part, 0.5)\n"
      "        copy_: \"f32[0]\" = torch.ops.aten.copy_.default(part, mul)\n"
      "        exp: \"f32[4]\" = torch.ops.aten.exp.default(sin)\n"
      "        return (exp,)\n");
  EXPECT_TRUE(program.isHigh(0)) << program.nodes(0);
}

// Only the innermost body writes: those around it are as they were.
TEST(LaunchProof, WritesInABodyOfABodyAreFollowed) {
  auto program = [](const std::string &factor) {
    return Program(
        cppKernel("k", "'const float*', 'float*'",
                  "const float* in_ptr0, float* out_ptr0",
                  "  auto tmp0 = in_ptr0[static_cast<int64_t>(0L)];\n"
                  "  auto tmp1 = std::sin(tmp0);\n"
                  "  auto tmp2 = static_cast<float>(" +
                      factor +
                      ");\n"
                      "  auto tmp3 = float(tmp1 * tmp2);\n"
                      "  auto tmp4 = std::exp(tmp3);\n"
                      "  out_ptr0[static_cast<int64_t>(0L)] = tmp4;\n") +
            "def true_graph_0_true_graph_0(args):\n"
            "    true_graph_0_true_graph_0_a, = args\n"
            "    buf0 = empty_strided_cpu((), (), torch.float32)\n"
            "    k(true_graph_0_true_graph_0_a, buf0)\n"
            "    return (buf0, )\n"
            "def true_graph_0(args):\n"
            "    true_graph_0_a, = args\n"
            "    true_graph_0_true_graph_0_args = [true_graph_0_a]\n"
            "    (buf1,) = "
            "true_graph_0_true_graph_0(true_graph_0_true_graph_0_args)\n"
            "    return (buf1, )\n" +
            call("    x, = args\n"
                 "    true_graph_0_args = [x]\n"
                 "    (buf2,) = true_graph_0(true_graph_0_args)\n"
                 "    return (buf2, )\n"),
        "    def forward(self, x: \"f32[4]\"):\n"
        "        t = self.true_graph_0\n"
        "        cond = torch.ops.higher_order.cond(True, t, t, (x,))\n"
        "        z: \"f32[]\" = cond[0]\n"
        "        return (z,)\n"
        "    class true_graph_0(torch.nn.Module):\n"
        "        def forward(self, a: \"f32[4]\"):\n"
        "            t = self.true_graph_0\n"
        "            cond = torch.ops.higher_order.cond(True, t, t, (a,))\n"
        "            y: \"f32[]\" = cond[0]\n"
        "            return (y,)\n"
        "        class true_graph_0(torch.nn.Module):\n"
        "            def forward(self, a: \"f32[4]\"):\n"
        "                sin: \"f32[4]\" = torch.ops.aten.sin.default(a)\n"
        "                one: \"f32[]\" = torch.ops.aten.select.int(sin, 0, "
        "0)\n"
        "                mul: \"f32[]\" = torch.ops.aten.mul.Tensor(one, 0.5)\n"
        "                copy_: \"f32[]\" = torch.ops.aten.copy_.default(one, "
        "mul)\n"
        "                exp: \"f32[]\" = torch.ops.aten.exp.default(one)\n"
        "                return (exp,)\n");
  };
  Program right = program("0.5");
  EXPECT_TRUE(right.isHigh(0)) << right.nodes(0);
  EXPECT_FALSE(program("1.0").isHigh(0));
}

// A recurrence that begins with nothing (RWKV): what it multiplies by zero, and
// the exponential of what lies below the least number, tell what they are of.
TEST(LaunchProof, ProductsWithNothingTellWhatTheyAreOf) {
  Program program(
      cppKernel("k0", "'const float*', 'float*', 'float*'",
                "const float* in_ptr0, float* out_ptr0, float* out_ptr1",
                loop("x0", 4) +
                    "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                    "  auto tmp1 = static_cast<float>(-1e+38);\n"
                    "  auto tmp2 = float(tmp1 - tmp0);\n"
                    "  auto tmp3 = std::exp(tmp2);\n"
                    "  auto tmp4 = std::exp(tmp0);\n"
                    "  out_ptr0[static_cast<int64_t>(x0)] = tmp3;\n"
                    "  out_ptr1[static_cast<int64_t>(x0)] = tmp4;\n}\n") +
          cppKernel("k1",
                    "'const float*', 'const float*', 'const float*', 'float*'",
                    "const float* in_ptr0, const float* in_ptr1, const float* "
                    "in_ptr2, float* out_ptr0",
                    loop("x0", 4) +
                        "  auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];\n"
                        "  auto tmp1 = in_ptr1[static_cast<int64_t>(x0)];\n"
                        "  auto tmp2 = in_ptr2[static_cast<int64_t>(x0)];\n"
                        "  auto tmp3 = static_cast<float>(0.0);\n"
                        "  auto tmp4 = float(tmp0 * tmp3);\n"
                        "  auto tmp5 = float(tmp1 * tmp2);\n"
                        "  auto tmp6 = float(tmp4 + tmp5);\n"
                        "  auto tmp7 = float(tmp4 + tmp1);\n"
                        "  auto tmp8 = tmp6 / tmp7;\n"
                        "  out_ptr0[static_cast<int64_t>(x0)] = tmp8;\n}\n") +
          call("    x, y = args\n"
               "    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    buf1 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k0(x, buf0, buf1)\n"
               "    buf2 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
               "    k1(buf0, buf1, y, buf2)\n"
               "    return (buf2, )\n"),
      "    def forward(self, x: \"f32[4]\", y: \"f32[4]\"):\n"
      "        least: \"f32[4]\" = torch.ops.aten.full.default([4], -1e+38)\n"
      "        sub: \"f32[4]\" = torch.ops.aten.sub.Tensor(least, x)\n"
      "        old: \"f32[4]\" = torch.ops.aten.exp.default(sub)\n"
      "        new: \"f32[4]\" = torch.ops.aten.exp.default(x)\n"
      "        none: \"f32[4]\" = torch.ops.aten.full.default([4], 0)\n"
      "        mul: \"f32[4]\" = torch.ops.aten.mul.Tensor(old, none)\n"
      "        mul_1: \"f32[4]\" = torch.ops.aten.mul.Tensor(new, y)\n"
      "        add: \"f32[4]\" = torch.ops.aten.add.Tensor(mul, mul_1)\n"
      "        add_1: \"f32[4]\" = torch.ops.aten.add.Tensor(mul, new)\n"
      "        div: \"f32[4]\" = torch.ops.aten.div.Tensor(add, add_1)\n"
      "        return (div,)\n");
  EXPECT_TRUE(program.isHigh(0)) << program.nodes(0);
  EXPECT_EQ(program.nodes(0), "least sub old new");
  EXPECT_TRUE(program.isHigh(1)) << program.nodes(1);
  EXPECT_EQ(program.nodes(1), "none mul mul_1 add add_1 div");
}
} // namespace
