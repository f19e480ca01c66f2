class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[2, 6, 24]", arg1_1: "f32[128, 24]", arg2_1: "f32[128, 32]", arg3_1: "f32[128]", arg4_1: "f32[128]", arg5_1: "f32[4, 32]", arg6_1: "f32[4]"):
        # File: site-packages/torch/nn/modules/rnn.py:1125 in forward, code: h_zeros = torch.zeros(
        full_default: "f32[1, 2, 32]" = torch.ops.aten.full.default([1, 2, 32], 0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)

        # File: site-packages/torch/nn/modules/rnn.py:1132 in forward, code: c_zeros = torch.zeros(
        full_default_1: "f32[1, 2, 32]" = torch.ops.aten.full.default([1, 2, 32], 0, dtype = torch.float32, layout = torch.strided, device = device(type='cpu'), pin_memory = False)

        # File: site-packages/torch/nn/modules/rnn.py:1164 in forward, code: result = _VF.lstm(
        lstm = torch.ops.opprof_recurrent.lstm.default(arg0_1, [full_default, full_default_1], [arg1_1, arg2_1, arg3_1, arg4_1], True, 1, 0.0, False, False, True);  arg0_1 = full_default = full_default_1 = arg1_1 = arg2_1 = arg3_1 = arg4_1 = None
        getitem: "f32[2, 6, 32]" = lstm[0];  lstm = None

        # File: benchmarks/models/small_lstm.py:17 in forward, code: return self.head(out[:, -1])
        select: "f32[2, 32]" = torch.ops.aten.select.int(getitem, 1, -1);  getitem = None

        # File: site-packages/torch/nn/modules/linear.py:134 in forward, code: return F.linear(input, self.weight, self.bias)
        permute: "f32[32, 4]" = torch.ops.aten.permute.default(arg5_1, [1, 0]);  arg5_1 = None
        addmm: "f32[2, 4]" = torch.ops.aten.addmm.default(arg6_1, select, permute);  arg6_1 = select = permute = None
        return (addmm,)
