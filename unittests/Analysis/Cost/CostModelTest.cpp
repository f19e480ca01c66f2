// Verifies the formulas against counts worked out by hand or taken from
// torch.utils.flop_counter (PyTorch 2.13).

#include "opprof/Analysis/Cost/CostModel.h"
#include "opprof/Dialect/FX/IR/Schema.h"

#include <gtest/gtest.h>
#include <limits>

using namespace opprof;

static TensorShape tensor(std::initializer_list<int64_t> sizes,
                          unsigned elementBytes = 4) {
  return {llvm::SmallVector<int64_t, 4>(sizes), elementBytes};
}

static OperatorCost estimate(llvm::StringRef target,
                             std::vector<TensorShape> inputs,
                             std::vector<TensorShape> outputs,
                             bool isCausal = false, int64_t groups = 1,
                             bool isTransposed = false) {
  OperatorCall call;
  call.target = target;
  call.inputs = inputs;
  call.outputs = outputs;
  call.isCausal = isCausal;
  call.groups = groups;
  call.isTransposed = isTransposed;
  return estimateCost(call);
}

TEST(CostModel, MatrixProducts) {
  OperatorCost mm =
      estimate("aten.mm.default", {tensor({4096, 512}), tensor({512, 2048})},
               {tensor({4096, 2048})});
  EXPECT_EQ(mm.kind, WorkKind::Matrix);
  EXPECT_EQ(mm.flops, uint64_t(2) * 4096 * 512 * 2048);
  EXPECT_EQ(mm.bytesRead, 4u * (4096 * 512 + 512 * 2048));
  EXPECT_EQ(mm.bytesWritten, 4u * 4096 * 2048);

  EXPECT_EQ(estimate("aten.addmm.default",
                     {tensor({2048}), tensor({4096, 512}), tensor({512, 2048})},
                     {tensor({4096, 2048})})
                .flops,
            mm.flops);
  EXPECT_EQ(
      estimate("aten.linear.default",
               {tensor({8, 512, 512}), tensor({2048, 512}), tensor({2048})},
               {tensor({8, 512, 2048})})
          .flops,
      mm.flops);
  EXPECT_EQ(estimate("aten.bmm.default",
                     {tensor({6, 10, 20}), tensor({6, 20, 30})},
                     {tensor({6, 10, 30})})
                .flops,
            2u * 6 * 10 * 20 * 30);
  EXPECT_EQ(estimate("aten.matmul.default",
                     {tensor({10, 20}), tensor({6, 20, 30})},
                     {tensor({6, 10, 30})})
                .flops,
            2u * 6 * 10 * 20 * 30);
  EXPECT_EQ(estimate("aten.mv.default", {tensor({10, 20}), tensor({20})},
                     {tensor({10})})
                .flops,
            2u * 10 * 20);
}

TEST(CostModel, Convolutions) {
  // flop_counter on conv2d(3 → 64, 3×3, padding 1) of 16×3×64×64 says
  // 226492416.
  EXPECT_EQ(estimate("aten.convolution.default",
                     {tensor({16, 3, 64, 64}), tensor({64, 3, 3, 3})},
                     {tensor({16, 64, 64, 64})})
                .flops,
            226492416u);
  // Depthwise: each output sees one channel.
  EXPECT_EQ(estimate("aten.convolution.default",
                     {tensor({1, 32, 8, 8}), tensor({32, 1, 3, 3})},
                     {tensor({1, 32, 8, 8})}, false, 32)
                .flops,
            2u * 32 * 64 * 9);
  // Transposed: [in, out / groups, kernel…], counted over the inputs.
  EXPECT_EQ(estimate("aten.convolution.default",
                     {tensor({1, 8, 4, 4}), tensor({8, 6, 2, 2})},
                     {tensor({1, 6, 8, 8})}, false, 1, true)
                .flops,
            2u * 8 * 16 * 6 * 4);
}

TEST(CostModel, Attention) {
  std::vector<TensorShape> inputs = {tensor({2, 8, 128, 64}),
                                     tensor({2, 8, 128, 64}),
                                     tensor({2, 8, 128, 64})};
  std::vector<TensorShape> outputs = {tensor({2, 8, 128, 64})};
  EXPECT_EQ(
      estimate("aten.scaled_dot_product_attention.default", inputs, outputs)
          .flops,
      2u * 16 * 128 * 128 * 128);
  // Half of the pairs, and the diagonal.
  EXPECT_EQ(estimate("aten._scaled_dot_product_flash_attention.default", inputs,
                     outputs, true)
                .flops,
            2u * 16 * (128 * 129 / 2) * 128);
  // More queries than keys: the rows past the last key see all of them.
  EXPECT_EQ(estimate("aten.scaled_dot_product_attention.default",
                     {tensor({1, 1, 4, 1}), tensor({1, 1, 2, 1}),
                      tensor({1, 1, 2, 1})},
                     {tensor({1, 1, 4, 1})}, true)
                .flops,
            2u * (1 + 2 + 2 + 2) * 2);
  inputs.insert(inputs.begin(), tensor({2, 8, 128, 64}));
  EXPECT_EQ(
      estimate("aten._scaled_dot_product_flash_attention_backward.default",
               inputs, outputs)
          .flops,
      2u * 16 * 128 * 128 * (5 * 64));
}

// Counts of torch.utils.flop_counter where it has a formula.
TEST(CostModel, GroupedAndScaledProducts) {
  auto flops = [](llvm::StringRef target, std::vector<TensorShape> inputs,
                  std::vector<TensorShape> outputs) {
    return estimate(target, std::move(inputs), std::move(outputs)).flops;
  };
  // Rows of eight experts, each with a matrix of its own.
  EXPECT_EQ(flops("aten._grouped_mm.default",
                  {tensor({512, 64}, 2), tensor({8, 64, 128}, 2), tensor({8})},
                  {tensor({512, 128}, 2)}),
            2u * 512 * 64 * 128);
  EXPECT_EQ(flops("aten._grouped_mm.default",
                  {tensor({8, 512, 64}, 2), tensor({8, 64, 128}, 2)},
                  {tensor({8, 512, 128}, 2)}),
            2u * 8 * 512 * 64 * 128);
  EXPECT_EQ(flops("aten._grouped_mm.default",
                  {tensor({64, 512}, 2), tensor({512, 128}, 2), tensor({8})},
                  {tensor({8, 64, 128}, 2)}),
            2u * 64 * 512 * 128);
  OperatorCost scaled = estimate(
      "aten._scaled_mm.default",
      {tensor({16, 32}, 1), tensor({32, 64}, 1), tensor({}), tensor({})},
      {tensor({16, 64}, 2)});
  EXPECT_EQ(scaled.flops, 2u * 16 * 32 * 64);
  EXPECT_EQ(scaled.bytesRead, 16u * 32 + 32 * 64 + 4 + 4);
  EXPECT_EQ(scaled.bytesWritten, 2u * 16 * 64);
  EXPECT_EQ(flops("aten._weight_int8pack_mm.default",
                  {tensor({16, 32}, 2), tensor({64, 32}, 1), tensor({64}, 2)},
                  {tensor({16, 64}, 2)}),
            2u * 16 * 32 * 64);
  EXPECT_EQ(getWorkKind("aten._grouped_mm.default"), WorkKind::Matrix);
}

// What is added is in the source, however large the result is.
TEST(CostModel, ScattersReduceTheirSource) {
  for (llvm::StringRef target :
       {"aten.scatter_reduce_.two", "aten.scatter_reduce.two",
        "aten.scatter_add.default", "aten.scatter_add_.default"})
    EXPECT_EQ(estimate(target,
                       {tensor({1000, 8}), tensor({6, 8}, 8), tensor({10, 8})},
                       {tensor({1000, 8})})
                  .flops,
              48u);
  for (llvm::StringRef target :
       {"aten.index_add.default", "aten.index_reduce.default"})
    EXPECT_EQ(estimate(target,
                       {tensor({1000, 8}), tensor({6}, 8), tensor({6, 8})},
                       {tensor({1000, 8})})
                  .flops,
              48u);
}

TEST(CostModel, MasksAndChecksOnlyMove) {
  OperatorCost masked = estimate(
      "aten.masked_scatter.default",
      {tensor({4, 8}), tensor({4, 8}, 1), tensor({16})}, {tensor({4, 8})});
  EXPECT_EQ(masked.flops, 0u);
  EXPECT_EQ(masked.bytesRead, 4u * 32 + 32 + 4 * 16);
  EXPECT_EQ(masked.bytesWritten, 4u * 32);
  OperatorCost check = estimate("aten._assert_async.msg", {tensor({}, 1)}, {});
  EXPECT_EQ(check.flops, 0u);
  EXPECT_EQ(check.bytesRead, 1u);
}

// Counts of torch.utils.flop_counter for the products that these call.
TEST(CostModel, ProductsThatRepeatOrNameTheirDimensions) {
  auto flops = [](llvm::StringRef target, std::vector<TensorShape> inputs,
                  std::vector<TensorShape> outputs,
                  llvm::StringRef equation = "") {
    OperatorCall call{target, inputs, outputs};
    call.equation = equation;
    return estimateCost(call).flops;
  };
  // Either side may be repeated, or a vector.
  EXPECT_EQ(flops("aten.matmul.default",
                  {tensor({1, 4, 5, 6}), tensor({3, 4, 6, 7})},
                  {tensor({3, 4, 5, 7})}),
            5040u);
  EXPECT_EQ(flops("aten.matmul.default", {tensor({6}), tensor({3, 6, 7})},
                  {tensor({3, 7})}),
            252u);
  EXPECT_EQ(flops("aten.inner.default", {tensor({5, 6}), tensor({7, 6})},
                  {tensor({5, 7})}),
            420u);
  EXPECT_EQ(flops("aten.tensordot.default",
                  {tensor({5, 6, 3}), tensor({6, 3, 7})}, {tensor({5, 7})}),
            1260u);
  std::vector<TensorShape> batches = {tensor({3, 5, 6}), tensor({3, 6, 7})};
  for (llvm::StringRef equation : {"bij,bjk->bik", "bij, bjk -> bik"})
    EXPECT_EQ(
        flops("aten.einsum.default", batches, {tensor({3, 5, 7})}, equation),
        1260u);
  // What one side alone has, and nobody keeps, is summed up before.
  EXPECT_EQ(
      flops("aten.einsum.default", batches, {tensor({3, 7})}, "bij,bjk->bk"),
      2u * 3 * 6 * 7);
  // Without an arrow, and three in turn.
  EXPECT_EQ(flops("aten.einsum.default", {tensor({5, 6}), tensor({6, 7})},
                  {tensor({5, 7})}, "ij,jk"),
            420u);
  EXPECT_EQ(flops("aten.einsum.default",
                  {tensor({5, 6}), tensor({6, 7}), tensor({7, 3})},
                  {tensor({5, 3})}, "ij,jk,kl->il"),
            420u + 2 * 5 * 7 * 3);
  EXPECT_FALSE(flops("aten.einsum.default", batches, {tensor({3, 5, 7})}));
  EXPECT_FALSE(flops("aten.einsum.default", batches, {tensor({3, 5, 7})},
                     "...ij,...jk->...ik"));
  // An LSTM's products: ten positions, each with every weight.
  EXPECT_EQ(
      flops("aten.lstm.input",
            {tensor({5, 2, 6}), tensor({1, 2, 8}), tensor({1, 2, 8}),
             tensor({32, 6}), tensor({32, 8}), tensor({32}), tensor({32})},
            {tensor({5, 2, 8})}),
      8960u);
  EXPECT_EQ(getWorkKind("aten.__rshift__.Scalar"), WorkKind::Pointwise);
}

TEST(CostModel, BackwardOfConvolutionsAndAttention) {
  std::vector<TensorShape> inputs = {
      tensor({2, 16, 30, 30}), tensor({2, 3, 32, 32}), tensor({16, 3, 3, 3})};
  OperatorCall call;
  call.target = "aten.convolution_backward.default";
  call.inputs = inputs;
  uint64_t forward = 2ull * 2 * 16 * 30 * 30 * 3 * 3 * 3;
  // The tuple's type is not known: the mask says what is asked for.
  TensorShape unknown = tensor({-1}, 0);
  call.outputs = unknown;
  EXPECT_FALSE(estimateCost(call).flops);
  call.gradients = 1;
  EXPECT_EQ(estimateCost(call).flops, forward);
  call.gradients = 2;
  EXPECT_EQ(estimateCost(call).flops, 2 * forward);

  uint64_t backward = 2ull * 5 * 2 * 4 * 128 * 128 * 64;
  EXPECT_EQ(
      estimate("aten._scaled_dot_product_cudnn_attention_backward.default",
               {tensor({2, 4, 128, 64}), tensor({2, 4, 128, 64}),
                tensor({2, 4, 128, 64}), tensor({2, 4, 128, 64})},
               {tensor({2, 4, 128, 64})})
          .flops,
      backward);
  // Positions before heads.
  EXPECT_EQ(estimate("aten._flash_attention_backward.default",
                     {tensor({2, 128, 4, 64}), tensor({2, 128, 4, 64}),
                      tensor({2, 128, 4, 64}), tensor({2, 128, 4, 64})},
                     {tensor({2, 128, 4, 64})})
                .flops,
            backward);
}

TEST(CostModel, ElementsAndReductions) {
  OperatorCost gelu =
      estimate("aten.gelu.default", {tensor({10, 10})}, {tensor({10, 10})});
  EXPECT_EQ(gelu.kind, WorkKind::Pointwise);
  EXPECT_EQ(gelu.flops, 800u);
  // Broadcasting does the work of the output.
  EXPECT_EQ(estimate("aten.add.Tensor", {tensor({10, 1}), tensor({1, 10})},
                     {tensor({10, 10})})
                .flops,
            100u);
  EXPECT_EQ(
      estimate("aten.add_.Tensor", {tensor({10}), tensor({10})}, {tensor({10})})
          .kind,
      WorkKind::Pointwise);
  OperatorCost sum =
      estimate("aten.sum.dim_IntList", {tensor({10, 20})}, {tensor({10})});
  EXPECT_EQ(sum.kind, WorkKind::Reduction);
  EXPECT_EQ(sum.flops, 200u);
  EXPECT_EQ(sum.bytesWritten, 40u);
}

TEST(CostModel, ViewsAreOneFact) {
  // By the schema, under every form of the name.
  for (const char *target :
       {"aten.transpose.int", "aten.transpose", "transpose",
        "torch.ops.aten.view.default", "aten.split.Tensor", "aten.t.default",
        "prims.broadcast_in_dim.default", "aten._unsafe_view.default",
        "aten.reshape.default", "aten.conj_physical.default", "aten.mm.default",
        "aten.contiguous.default", "aten.to.dtype", "aten.relu_.default",
        "operator.getitem"}) {
    bool isView =
        !llvm::is_contained({"aten.conj_physical.default", "aten.mm.default",
                             "aten.contiguous.default", "aten.to.dtype",
                             "aten.relu_.default", "operator.getitem"},
                            llvm::StringRef(target));
    EXPECT_EQ(opprof::fx::isViewOperator(target), isView) << target;
    if (isView) {
      EXPECT_EQ(getWorkKind(target), WorkKind::View) << target;
    }
  }
  // In place, they rename too.
  EXPECT_EQ(getWorkKind("aten.t_.default"), WorkKind::View);
  EXPECT_EQ(getWorkKind("aten.to.dtype"), WorkKind::Movement);
}

TEST(CostModel, TracesNameOperatorsWithoutTheirOverload) {
  for (llvm::StringRef target :
       {"aten.mul", "aten.div", "aten.sub", "aten.add_", "aten.lerp_",
        "aten.pow", "aten.sqrt", "aten.addcdiv_"})
    EXPECT_EQ(getWorkKind(target), WorkKind::Pointwise) << target.str();
  OperatorCost scaled =
      estimate("aten.mul", {tensor({8, 4}), tensor({4})}, {tensor({8, 4})});
  EXPECT_EQ(scaled.flops, 32u);
  EXPECT_EQ(scaled.bytesRead, 4u * (32 + 4));
  EXPECT_EQ(
      estimate("aten.lerp_", {tensor({8}), tensor({8})}, {tensor({8})}).flops,
      24u);
}

TEST(CostModel, MovementAndViews) {
  OperatorCost view =
      estimate("aten.view.default", {tensor({8})}, {tensor({2, 4})});
  EXPECT_EQ(view.kind, WorkKind::View);
  EXPECT_EQ(view.bytesRead, 0u);
  OperatorCost permute =
      estimate("aten.permute.default", {tensor({2, 4})}, {tensor({4, 2})});
  EXPECT_EQ(permute.kind, WorkKind::View);
  OperatorCost clone =
      estimate("aten.clone.default", {tensor({8})}, {tensor({8})});
  EXPECT_EQ(clone.kind, WorkKind::Movement);
  EXPECT_EQ(clone.flops, 0u);
  EXPECT_EQ(clone.bytesRead, 32u);
  // An embedding reads the rows it gives, not the table.
  OperatorCost embedding = estimate("aten.embedding.default",
                                    {tensor({50257, 768}), tensor({4, 128}, 8)},
                                    {tensor({4, 128, 768})});
  EXPECT_EQ(embedding.bytesRead, 4u * 4 * 128 * 768 + 8 * 4 * 128);
}

TEST(CostModel, ProductsOfThreeAndMore) {
  // torch.nn.Bilinear, and what it is lowered to.
  TensorShape one = tensor({5, 6}), two = tensor({5, 7});
  TensorShape weight = tensor({4, 6, 7}), out = tensor({5, 4});
  uint64_t flops = 2 * 5 * 4 * 6 * 7 + 2 * 5 * 4 * 7;
  EXPECT_EQ(estimate("aten.bilinear.default", {one, two, weight}, {out}).flops,
            flops);
  EXPECT_EQ(
      estimate("aten._trilinear.default", {one, weight, two}, {out}).flops,
      flops);
  // A thin matrix is multiplied first: by the other order it would be 2 * 5 *
  // 600 * 70 + 2 * 5 * 70 * 3.
  EXPECT_EQ(estimate("aten.linalg_multi_dot.default",
                     {tensor({5, 600}), tensor({600, 70}), tensor({70, 3})},
                     {tensor({5, 3})})
                .flops,
            2u * 600 * 70 * 3 + 2 * 5 * 600 * 3);
  EXPECT_EQ(estimate("aten.linalg_multi_dot.default",
                     {tensor({6}), tensor({6, 7}), tensor({7})}, {tensor({})})
                .flops,
            2u * 6 * 7 + 2 * 6);
  EXPECT_EQ(estimate("aten.outer.default", {tensor({5}), tensor({6})},
                     {tensor({5, 6})})
                .flops,
            30u);
  // (input, weights of the input and of the state, …): a layer of an LSTM.
  EXPECT_EQ(
      estimate("aten.mkldnn_rnn_layer.default",
               {tensor({3, 2, 6}), tensor({20, 6}), tensor({20, 5}),
                tensor({20}), tensor({20}), tensor({2, 5}), tensor({2, 5})},
               {tensor({3, 2, 5})})
          .flops,
      2u * 3 * 2 * (20 * 6 + 20 * 5));
}

TEST(CostModel, FlexibleAttention) {
  TensorShape q = tensor({2, 4, 8, 16}), k = tensor({2, 4, 12, 16});
  uint64_t forward = 2 * 2 * 4 * 8 * 12 * 16 * 2;
  EXPECT_EQ(estimate("higher_order.flex_attention", {q, k, k}, {q}).flops,
            forward);
  // (q, k, v, out, logsumexp, grad_out, …): five products for two.
  EXPECT_EQ(estimate("higher_order.flex_attention_backward",
                     {q, k, k, q, tensor({2, 4, 8}), q}, {q, k, k})
                .flops,
            forward / 2 * 5);
}

TEST(CostModel, FlexibleAttentionWithBlocks) {
  TensorShape q = tensor({2, 4, 256, 16});
  uint64_t forward = uint64_t(2) * 2 * 4 * 256 * 256 * 16 * 2;
  // (q, k, v, blocks of each row, their columns): one block hides nothing.
  EXPECT_EQ(estimate("higher_order.flex_attention",
                     {q, q, q, tensor({1, 1, 1}), tensor({1, 1, 1, 1})}, {q})
                .flops,
            forward);
  // How many of several blocks are computed says no size.
  OperatorCost masked =
      estimate("higher_order.flex_attention",
               {q, q, q, tensor({1, 1, 2}), tensor({1, 1, 2, 2})}, {q});
  EXPECT_EQ(masked.kind, WorkKind::Matrix);
  EXPECT_FALSE(masked.flops);
  EXPECT_FALSE(estimate("higher_order.flex_attention_backward",
                        {q, q, q, q, tensor({2, 4, 256}), q, tensor({1, 1, 2}),
                         tensor({1, 1, 2, 2})},
                        {q, q, q})
                   .flops);
}

TEST(CostModel, FourierTransforms) {
  auto transform = [](llvm::StringRef target, TensorShape input,
                      TensorShape output, llvm::ArrayRef<int64_t> dims) {
    OperatorCall call;
    call.target = target;
    call.inputs = input;
    call.outputs = output;
    call.dims = dims;
    return estimateCost(call).flops;
  };
  // Three of 64 complex numbers; log2(64) is 6.
  EXPECT_EQ(transform("aten._fft_c2c.default", tensor({3, 64}, 8),
                      tensor({3, 64}, 8), {1}),
            5u * 3 * 64 * 6);
  // Half for real ones, on either side, over 8 by 16 numbers: 3 and 4.
  EXPECT_EQ(transform("aten._fft_r2c.default", tensor({2, 8, 16}),
                      tensor({2, 8, 9}, 8), {1, 2}),
            5u * 2 * 8 * 16 * 7 / 2);
  EXPECT_EQ(transform("aten._fft_c2r.default", tensor({2, 8, 9}, 8),
                      tensor({2, 8, 16}), {-2, -1}),
            5u * 2 * 8 * 16 * 7 / 2);
  // Without its dimensions it is not known.
  EXPECT_FALSE(transform("aten._fft_c2c.default", tensor({3, 64}, 8),
                         tensor({3, 64}, 8), {}));
}

TEST(CostModel, Distances) {
  // 5 by 7 pairs of vectors of 3.
  EXPECT_EQ(estimate("aten._cdist_forward.default",
                     {tensor({2, 5, 3}), tensor({2, 7, 3})},
                     {tensor({2, 5, 7})})
                .flops,
            3u * 2 * 5 * 7 * 3);
  EXPECT_EQ(estimate("aten._cdist_backward.default",
                     {tensor({2, 5, 7}), tensor({2, 5, 3}), tensor({2, 7, 3}),
                      tensor({2, 5, 7})},
                     {tensor({2, 5, 3})})
                .flops,
            4u * 2 * 5 * 7 * 3);
  EXPECT_EQ(
      estimate("aten._pdist_forward.default", {tensor({5, 3})}, {tensor({10})})
          .flops,
      3u * 10 * 3);
}

TEST(CostModel, BagsOfEmbeddings) {
  TensorShape table = tensor({1000, 16}), indices = tensor({40}, 8),
              offsets = tensor({10}, 8), bags = tensor({10, 16});
  OperatorCost plain = estimate("aten._embedding_bag.default",
                                {table, indices, offsets}, {bags});
  EXPECT_EQ(plain.flops, 40u * 16);
  // Its rows, not the table.
  EXPECT_EQ(plain.bytesRead, 40u * 16 * 4 + 40 * 8 + 10 * 8);
  EXPECT_EQ(estimate("aten._embedding_bag_forward_only.default",
                     {table, indices, offsets, tensor({40})}, {bags})
                .flops,
            2u * 40 * 16);
  EXPECT_EQ(estimate("aten._embedding_bag_backward.default",
                     {bags, indices, offsets}, {table})
                .flops,
            40u * 16);
}

TEST(CostModel, AttentionInOneCall) {
  // Two sequences of 6, width 8: projections to 24 and back, 2 · 6 · 6 pairs.
  TensorShape x = tensor({2, 6, 8});
  uint64_t attention = 2 * (12 * 8 * 24 + 12 * 8 * 8 + 2 * 6 * 6 * 2 * 8);
  EXPECT_EQ(estimate("aten._native_multi_head_attention.default",
                     {x, x, x, tensor({24, 8}), tensor({24}), tensor({8, 8}),
                      tensor({8})},
                     {x})
                .flops,
            attention);
  EXPECT_EQ(
      estimate("aten._transformer_encoder_layer_fwd.default",
               {x, tensor({24, 8}), tensor({24}), tensor({8, 8}), tensor({8}),
                tensor({8}), tensor({8}), tensor({8}), tensor({8}),
                tensor({32, 8}), tensor({32}), tensor({8, 32}), tensor({8})},
               {x})
          .flops,
      attention + 2 * 2 * 12 * 8 * 32);
}

TEST(CostModel, UnknownIsAbsent) {
  OperatorCost unknown =
      estimate("mylib.fancy.default", {tensor({8})}, {tensor({8})});
  EXPECT_EQ(unknown.kind, WorkKind::Unknown);
  EXPECT_FALSE(unknown.flops);
  EXPECT_EQ(unknown.bytesRead, 32u);
  // A symbolic size, a dtype of unknown width, and sizes that overflow.
  EXPECT_FALSE(estimate("aten.mm.default", {tensor({-1, 4}), tensor({4, 4})},
                        {tensor({-1, 4})})
                   .flops);
  EXPECT_FALSE(
      estimate("aten.clone.default", {tensor({8}, 0)}, {tensor({8}, 0)})
          .bytesRead);
  int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(estimate("aten.mm.default",
                        {tensor({huge, huge}), tensor({huge, huge})},
                        {tensor({huge, huge})})
                   .flops);
  // Too few tensors for the formula.
  EXPECT_FALSE(estimate("aten.mm.default", {tensor({4, 4})}, {}).flops);
}
