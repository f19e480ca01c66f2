class GraphModule(torch.nn.Module):
    def forward(self, primals_4: "f32[4, 16]", primals_6: "f32[1, 16]", view: "f32[15, 6]", tanh: "f32[5, 3, 16]", addmm_1: "f32[15, 4]", addmm_2: "f32[15, 1]", cat: "f32[12]", mean: "f32[]", add_9: "f32[]", unsqueeze: "i64[4, 3, 1]", exp_1: "f32[4, 3]", tangents_1: "f32[]"):
        # File: benchmarks/further_models.py:610 in forward, code: return policy + 0.5 * F.huber_loss(value[:-1], target) - 0.01 * entropy
        neg_2: "f32[]" = torch.ops.aten.neg.default(tangents_1)
        mul_24: "f32[]" = torch.ops.aten.mul.Tensor(neg_2, 0.01)
        mul_25: "f32[]" = torch.ops.aten.mul.Tensor(tangents_1, 0.5);  tangents_1 = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        view_5: "f32[5, 3, 1]" = torch.ops.aten.reshape.default(addmm_2, [5, 3, 1]);  addmm_2 = None

        # File: benchmarks/further_models.py:596 in forward, code: value = m.value(h).squeeze(-1)
        squeeze: "f32[5, 3]" = torch.ops.aten.squeeze.dim(view_5, -1);  view_5 = None

        # File: benchmarks/further_models.py:604 in forward, code: a = torch.stack(advantages)
        view_6: "f32[4, 3]" = torch.ops.aten.reshape.default(cat, [4, 3]);  cat = None

        # File: benchmarks/further_models.py:605 in forward, code: target = a + kept[:-1]
        slice_1: "f32[4, 3]" = torch.ops.aten.slice.Tensor(squeeze, 0, 0, -1);  squeeze = None
        add_8: "f32[4, 3]" = torch.ops.aten.add.Tensor(view_6, slice_1)

        # File: benchmarks/further_models.py:610 in forward, code: return policy + 0.5 * F.huber_loss(value[:-1], target) - 0.01 * entropy
        sub_16: "f32[4, 3]" = torch.ops.aten.sub.Tensor(slice_1, add_8);  slice_1 = add_8 = None
        lt_1: "b8[4, 3]" = torch.ops.aten.lt.Scalar(sub_16, -1.0)
        mul_26: "f32[]" = torch.ops.aten.mul.Tensor(mul_25, -0.08333333333333333)
        mul_27: "f32[]" = torch.ops.aten.mul.Tensor(mul_26, 1.0);  mul_26 = None
        gt: "b8[4, 3]" = torch.ops.aten.gt.Scalar(sub_16, 1.0)
        mul_28: "f32[]" = torch.ops.aten.mul.Tensor(mul_25, 0.08333333333333333)
        mul_29: "f32[]" = torch.ops.aten.mul.Tensor(mul_28, 1.0);  mul_28 = None
        mul_30: "f32[4, 3]" = torch.ops.aten.mul.Tensor(sub_16, 0.08333333333333333);  sub_16 = None
        mul_31: "f32[4, 3]" = torch.ops.aten.mul.Tensor(mul_30, mul_25);  mul_30 = mul_25 = None
        where_1: "f32[4, 3]" = torch.ops.aten.where.self(gt, mul_29, mul_31);  gt = mul_29 = mul_31 = None
        where_2: "f32[4, 3]" = torch.ops.aten.where.self(lt_1, mul_27, where_1);  lt_1 = mul_27 = where_1 = None
        full_default_1: "f32[5, 3]" = torch.ops.aten.full.default([5, 3], 0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)

        # No stacktrace found for following nodes
        slice_scatter_default: "f32[5, 3]" = torch.ops.aten.slice_scatter.default(full_default_1, where_2, 0, 0, -1);  full_default_1 = where_2 = None

        # File: benchmarks/further_models.py:609 in forward, code: entropy = -(log.exp() * log).sum(-1).mean()
        neg_3: "f32[]" = torch.ops.aten.neg.default(mul_24);  mul_24 = None
        expand: "f32[5, 3]" = torch.ops.aten.expand.default(neg_3, [5, 3]);  neg_3 = None
        div_1: "f32[5, 3]" = torch.ops.aten.div.Scalar(expand, 15);  expand = None
        unsqueeze_1: "f32[5, 3, 1]" = torch.ops.aten.unsqueeze.default(div_1, -1);  div_1 = None
        expand_1: "f32[5, 3, 4]" = torch.ops.aten.expand.default(unsqueeze_1, [5, 3, 4]);  unsqueeze_1 = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        view_3: "f32[5, 3, 4]" = torch.ops.aten.reshape.default(addmm_1, [5, 3, 4]);  addmm_1 = None

        # File: benchmarks/further_models.py:595 in forward, code: log = m.policy(h).log_softmax(-1)
        amax: "f32[5, 3, 1]" = torch.ops.aten.amax.default(view_3, [-1], True)
        sub: "f32[5, 3, 4]" = torch.ops.aten.sub.Tensor(view_3, amax);  view_3 = amax = None
        exp: "f32[5, 3, 4]" = torch.ops.aten.exp.default(sub)
        sum_1: "f32[5, 3, 1]" = torch.ops.aten.sum.dim_IntList(exp, [-1], True);  exp = None
        log: "f32[5, 3, 1]" = torch.ops.aten.log.default(sum_1);  sum_1 = None
        sub_1: "f32[5, 3, 4]" = torch.ops.aten.sub.Tensor(sub, log);  sub = log = None

        # File: benchmarks/further_models.py:609 in forward, code: entropy = -(log.exp() * log).sum(-1).mean()
        exp_2: "f32[5, 3, 4]" = torch.ops.aten.exp.default(sub_1)
        mul_32: "f32[5, 3, 4]" = torch.ops.aten.mul.Tensor(expand_1, exp_2)
        mul_33: "f32[5, 3, 4]" = torch.ops.aten.mul.Tensor(expand_1, sub_1);  expand_1 = sub_1 = None
        mul_34: "f32[5, 3, 4]" = torch.ops.aten.mul.Tensor(mul_33, exp_2);  mul_33 = None

        # File: benchmarks/further_models.py:609 in forward, code: entropy = -(log.exp() * log).sum(-1).mean()Gradient addition node due to multiple use of tensor around:
        add_11: "f32[5, 3, 4]" = torch.ops.aten.add.Tensor(mul_32, mul_34);  mul_32 = mul_34 = None

        # File: benchmarks/further_models.py:608 in forward, code: policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
        expand_2: "f32[4, 3]" = torch.ops.aten.expand.default(neg_2, [4, 3]);  neg_2 = None
        div_2: "f32[4, 3]" = torch.ops.aten.div.Scalar(expand_2, 12);  expand_2 = None
        div_3: "f32[4, 3]" = torch.ops.aten.div.Scalar(div_2, 2)

        # File: benchmarks/further_models.py:606 in forward, code: a = (a - a.mean()) / (a.std() + 1e-8)
        sub_14: "f32[4, 3]" = torch.ops.aten.sub.Tensor(view_6, mean);  view_6 = mean = None
        div: "f32[4, 3]" = torch.ops.aten.div.Tensor(sub_14, add_9);  sub_14 = add_9 = None

        # File: benchmarks/further_models.py:608 in forward, code: policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
        mul_16: "f32[4, 3]" = torch.ops.aten.mul.Tensor(exp_1, div)
        clamp_min: "f32[4, 3]" = torch.ops.aten.clamp_min.default(exp_1, 0.8)
        clamp_max: "f32[4, 3]" = torch.ops.aten.clamp_max.default(clamp_min, 1.2);  clamp_min = None
        mul_17: "f32[4, 3]" = torch.ops.aten.mul.Tensor(clamp_max, div);  clamp_max = None
        eq: "b8[4, 3]" = torch.ops.aten.eq.Tensor(mul_16, mul_17)
        where_3: "f32[4, 3]" = torch.ops.aten.where.self(eq, div_3, div_2);  eq = div_3 = div_2 = None
        lt_2: "b8[4, 3]" = torch.ops.aten.lt.Tensor(mul_16, mul_17)
        full_default_2: "f32[]" = torch.ops.aten.full.default([], 0.0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)
        where_4: "f32[4, 3]" = torch.ops.aten.where.self(lt_2, full_default_2, where_3);  lt_2 = None
        gt_1: "b8[4, 3]" = torch.ops.aten.gt.Tensor(mul_16, mul_17);  mul_16 = mul_17 = None
        where_6: "f32[4, 3]" = torch.ops.aten.where.self(gt_1, full_default_2, where_3);  gt_1 = where_3 = None
        mul_35: "f32[4, 3]" = torch.ops.aten.mul.Tensor(where_4, div);  where_4 = None
        ge: "b8[4, 3]" = torch.ops.aten.ge.Scalar(exp_1, 0.8)
        le: "b8[4, 3]" = torch.ops.aten.le.Scalar(exp_1, 1.2)
        logical_and: "b8[4, 3]" = torch.ops.aten.logical_and.default(ge, le);  ge = le = None
        where_7: "f32[4, 3]" = torch.ops.aten.where.self(logical_and, mul_35, full_default_2);  logical_and = mul_35 = full_default_2 = None
        mul_36: "f32[4, 3]" = torch.ops.aten.mul.Tensor(where_6, div);  where_6 = div = None

        # File: benchmarks/further_models.py:608 in forward, code: policy = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()Gradient addition node due to multiple use of tensor around:
        add_12: "f32[4, 3]" = torch.ops.aten.add.Tensor(where_7, mul_36);  where_7 = mul_36 = None

        # File: benchmarks/further_models.py:607 in forward, code: ratio = (log[:-1].gather(-1, action.unsqueeze(-1)).squeeze(-1) - old).exp()
        mul_37: "f32[4, 3]" = torch.ops.aten.mul.Tensor(add_12, exp_1);  add_12 = exp_1 = None
        unsqueeze_2: "f32[4, 3, 1]" = torch.ops.aten.unsqueeze.default(mul_37, 2);  mul_37 = None
        full_default_5: "f32[4, 3, 4]" = torch.ops.aten.full.default([4, 3, 4], 0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)
        scatter_add: "f32[4, 3, 4]" = torch.ops.aten.scatter_add.default(full_default_5, -1, unsqueeze, unsqueeze_2);  full_default_5 = unsqueeze = unsqueeze_2 = None
        full_default_6: "f32[5, 3, 4]" = torch.ops.aten.full.default([5, 3, 4], 0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)

        # No stacktrace found for following nodes
        slice_scatter_default_1: "f32[5, 3, 4]" = torch.ops.aten.slice_scatter.default(full_default_6, scatter_add, 0, 0, -1);  full_default_6 = scatter_add = None

        # File: benchmarks/further_models.py:607 in forward, code: ratio = (log[:-1].gather(-1, action.unsqueeze(-1)).squeeze(-1) - old).exp()Gradient addition node due to multiple use of tensor around:
        add_13: "f32[5, 3, 4]" = torch.ops.aten.add.Tensor(add_11, slice_scatter_default_1);  add_11 = slice_scatter_default_1 = None

        # File: benchmarks/further_models.py:596 in forward, code: value = m.value(h).squeeze(-1)
        unsqueeze_3: "f32[5, 3, 1]" = torch.ops.aten.unsqueeze.default(slice_scatter_default, 2);  slice_scatter_default = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        view_7: "f32[15, 1]" = torch.ops.aten.reshape.default(unsqueeze_3, [15, 1]);  unsqueeze_3 = None
        permute_2: "f32[16, 1]" = torch.ops.aten.permute.default(primals_6, [1, 0]);  primals_6 = None
        permute_3: "f32[1, 16]" = torch.ops.aten.permute.default(permute_2, [1, 0]);  permute_2 = None
        mul_38: "f32[15, 16]" = torch.ops.aten.mul.Tensor(view_7, permute_3);  permute_3 = None
        permute_4: "f32[1, 15]" = torch.ops.aten.permute.default(view_7, [1, 0])
        view_2: "f32[15, 16]" = torch.ops.aten.reshape.default(tanh, [15, 16])
        mm: "f32[1, 16]" = torch.ops.aten.mm.default(permute_4, view_2);  permute_4 = None
        sum_3: "f32[1, 1]" = torch.ops.aten.sum.dim_IntList(view_7, [0], True);  view_7 = None
        view_8: "f32[1]" = torch.ops.aten.reshape.default(sum_3, [1]);  sum_3 = None
        view_9: "f32[5, 3, 16]" = torch.ops.aten.reshape.default(mul_38, [5, 3, 16]);  mul_38 = None

        # File: benchmarks/further_models.py:595 in forward, code: log = m.policy(h).log_softmax(-1)
        sum_4: "f32[5, 3, 1]" = torch.ops.aten.sum.dim_IntList(add_13, [-1], True)
        mul_39: "f32[5, 3, 4]" = torch.ops.aten.mul.Tensor(exp_2, sum_4);  exp_2 = sum_4 = None
        sub_20: "f32[5, 3, 4]" = torch.ops.aten.sub.Tensor(add_13, mul_39);  add_13 = mul_39 = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        view_10: "f32[15, 4]" = torch.ops.aten.reshape.default(sub_20, [15, 4]);  sub_20 = None
        permute_1: "f32[16, 4]" = torch.ops.aten.permute.default(primals_4, [1, 0]);  primals_4 = None
        permute_7: "f32[4, 16]" = torch.ops.aten.permute.default(permute_1, [1, 0]);  permute_1 = None
        mm_1: "f32[15, 16]" = torch.ops.aten.mm.default(view_10, permute_7);  permute_7 = None
        permute_8: "f32[4, 15]" = torch.ops.aten.permute.default(view_10, [1, 0])
        mm_2: "f32[4, 16]" = torch.ops.aten.mm.default(permute_8, view_2);  permute_8 = view_2 = None
        sum_5: "f32[1, 4]" = torch.ops.aten.sum.dim_IntList(view_10, [0], True);  view_10 = None
        view_11: "f32[4]" = torch.ops.aten.reshape.default(sum_5, [4]);  sum_5 = None
        view_12: "f32[5, 3, 16]" = torch.ops.aten.reshape.default(mm_1, [5, 3, 16]);  mm_1 = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)Gradient addition node due to multiple use of tensor around:
        add_14: "f32[5, 3, 16]" = torch.ops.aten.add.Tensor(view_9, view_12);  view_9 = view_12 = None

        # File: benchmarks/further_models.py:594 in forward, code: h = torch.tanh(m.body(seen))
        mul_40: "f32[5, 3, 16]" = torch.ops.aten.mul.Tensor(tanh, tanh);  tanh = None
        sub_21: "f32[5, 3, 16]" = torch.ops.aten.sub.Tensor(1, mul_40);  mul_40 = None
        mul_41: "f32[5, 3, 16]" = torch.ops.aten.mul.Tensor(add_14, sub_21);  add_14 = sub_21 = None

        # File: .venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        view_13: "f32[15, 16]" = torch.ops.aten.reshape.default(mul_41, [15, 16]);  mul_41 = None
        permute_11: "f32[16, 15]" = torch.ops.aten.permute.default(view_13, [1, 0])
        mm_3: "f32[16, 6]" = torch.ops.aten.mm.default(permute_11, view);  permute_11 = view = None
        sum_6: "f32[1, 16]" = torch.ops.aten.sum.dim_IntList(view_13, [0], True);  view_13 = None
        view_14: "f32[16]" = torch.ops.aten.reshape.default(sum_6, [16]);  sum_6 = None
        return (None, mm_3, view_14, mm_2, view_11, mm, view_8, None, None, None, None)
