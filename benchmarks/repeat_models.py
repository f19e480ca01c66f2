"""Architectures whose repeats are looked for: those of transformers, timm and torchvision with small random weights.

Hybrid stacks stand first: layers of two kinds in turn.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Example = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]

_IDS = (2, 16)
_LANGUAGE = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def _ids(shape: tuple[int, ...] = _IDS) -> Tensor:
    return torch.randint(3, 90, shape)


def _language(kind: str, **changes: Any) -> Callable[[], Example]:
    def build() -> Example:
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.for_model(kind, **{**_LANGUAGE, **changes})
        config._attn_implementation = changes.get("attention", "sdpa")
        model = AutoModel.from_config(config)
        return model, (), {"input_ids": _ids(), "use_cache": False, "return_dict": False}

    return build


def _encoder(kind: str, **changes: Any) -> Callable[[], Example]:
    def build() -> Example:
        from transformers import AutoConfig, AutoModel

        wanted = {
            k: v for k, v in _LANGUAGE.items() if k not in ("num_key_value_heads", "head_dim")
        }
        config = AutoConfig.for_model(kind, **{**wanted, **changes})
        model = AutoModel.from_config(config)
        mask = torch.ones(_IDS, dtype=torch.int64)
        return model, (), {"input_ids": _ids(), "attention_mask": mask, "return_dict": False}

    return build


def _sequence(kind: str, **changes: Any) -> Callable[[], Example]:
    """An encoder and a decoder."""

    def build() -> Example:
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.for_model(
            kind, vocab_size=96, pad_token_id=0, decoder_start_token_id=1, **changes
        )
        model = AutoModel.from_config(config)
        kwargs = {"input_ids": _ids(), "decoder_input_ids": _ids((2, 8)), "use_cache": False}
        return model, (), {**kwargs, "return_dict": False}

    return build


def _whisper() -> Example:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        "whisper", vocab_size=96, d_model=32, encoder_layers=4, decoder_layers=4,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
        num_mel_bins=8, max_source_positions=16, max_target_positions=32,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    inputs = {"input_features": torch.randn(1, 8, 32), "decoder_input_ids": _ids((1, 8))}
    return AutoModel.from_config(config), (), {**inputs, "use_cache": False, "return_dict": False}


def _picture(kind: str, size: int = 32, **changes: Any) -> Callable[[], Example]:
    def build() -> Example:
        from transformers import AutoConfig, AutoModel

        config = AutoConfig.for_model(kind, image_size=size, **changes)
        return (
            AutoModel.from_config(config),
            (),
            {"pixel_values": torch.randn(1, 3, size, size), "return_dict": False},
        )

    return build


def _made(kind: str, inputs: Callable[[], dict[str, Any]], **changes: Any) -> Callable[[], Example]:
    """A model whose inputs or sizes have names of their own."""

    def build() -> Example:
        from transformers import AutoConfig, AutoModel

        return AutoModel.from_config(AutoConfig.for_model(kind, **changes)), (), inputs()

    return build


def _picture_and_mask() -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 3, 64, 64), "pixel_mask": torch.ones(1, 64, 64)}


def _timm(name: str, size: int = 64, **changes: Any) -> Callable[[], Example]:
    def build() -> Example:
        import timm

        return (
            timm.create_model(name, pretrained=False, **changes),
            (torch.randn(2, 3, size, size),),
            {},
        )

    return build


def _vision(name: str, size: int = 64, **changes: Any) -> Callable[[], Example]:
    def build() -> Example:
        import torchvision

        return (
            torchvision.models.get_model(name, weights=None, **changes),
            (torch.randn(2, 3, size, size),),
            {},
        )

    return build


_TOWER = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}
_DETECTOR = {
    "encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_model": 32,
}  # fmt: skip
_BACKBONE = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [2, 2, 2, 2]}

_HYBRID = {"mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_d_ssm": 64}

ARCHITECTURES: dict[str, Callable[[], Example]] = {
    # Layers of two kinds in turn.
    "gemma2": _language("gemma2", num_hidden_layers=8, sliding_window=8, attention="eager"),
    "gemma3": _language("gemma3_text", num_hidden_layers=12, sliding_window=8),
    "gemma3-tail": _language("gemma3_text", num_hidden_layers=34, sliding_window=8),
    "recurrent-gemma": _language(
        "recurrent_gemma", num_hidden_layers=8, lru_width=32, attention_window_size=8, intermediate_size=128
    ),
    "jamba": _language(
        "jamba", num_hidden_layers=8, attn_layer_period=4, attn_layer_offset=2, expert_layer_period=2,
        expert_layer_offset=1, num_experts=2, num_experts_per_tok=1, use_mamba_kernels=False,
        mamba_d_state=8, mamba_dt_rank=4,
    ),
    "bamba": _language(
        "bamba", num_hidden_layers=7, attn_layer_indices=[2, 5], mamba_n_heads=8, mamba_d_head=8,
        mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=8,
    ),
    "zamba": _language(
        "zamba", num_hidden_layers=8, attn_layer_period=3, attn_layer_offset=2, use_mamba_kernels=False,
        mamba_d_state=8, mamba_dt_rank=4, n_mamba_heads=2, num_key_value_heads=4, head_dim=16, attention_head_dim=16,
    ),
    "qwen3-next": _language(
        "qwen3_next", num_hidden_layers=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "granite-hybrid": _language(
        "granitemoehybrid", num_hidden_layers=6, layer_types=["mamba", "mamba", "attention"] * 2, mamba_n_heads=8,
        mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=8, num_local_experts=0,
        shared_intermediate_size=64,
    ),
    "nemotron-h": _language(
        "nemotron_h", num_hidden_layers=8, hybrid_override_pattern="M-M*M-M*", mamba_num_heads=8, mamba_head_dim=8,
        n_groups=1, ssm_state_size=8, chunk_size=8,
    ),
    "lfm2": _language("lfm2", num_hidden_layers=8, full_attn_idxs=[2, 5, 7]),
    "falcon-h1": _language(
        "falcon_h1", mamba_d_ssm=64, mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=8
    ),
    "gpt-oss": _language(
        "gpt_oss", num_hidden_layers=6, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, attention="eager"
    ),
    "llama4": _language(
        "llama4_text", num_hidden_layers=8, num_local_experts=2, num_experts_per_tok=1, intermediate_size_mlp=64,
        interleave_moe_layer_step=2, attention_chunk_size=8,
    ),
    "modernbert": _encoder("modernbert", num_hidden_layers=10, local_attention=8),
    "cohere2": _language("cohere2", num_hidden_layers=8, sliding_window=8),
    "olmo3": _language("olmo3", num_hidden_layers=8, sliding_window=8),
    "smollm3": _language("smollm3", num_hidden_layers=8),
    # Whose repeats are missed in part: the ends of stacks, experts whose sizes are known in a run only, norms with and without a cast.
    "gemma3n": _language(
        "gemma3n_text", num_hidden_layers=10, vocab_size_per_layer_input=96, hidden_size_per_layer_input=8, num_kv_shared_layers=4,
        sliding_window=8, laurel_rank=4, layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 2,
        activation_sparsity_pattern=[0.0] * 10,
    ),
    "lfm2-moe": _language(
        "lfm2_moe", num_hidden_layers=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_dense_layers=2,
        layer_types=["conv", "conv", "full_attention", "conv"] * 2,
    ),
    "jetmoe": _language("jetmoe", kv_channels=8, num_local_experts=4, num_experts_per_tok=2),
    "blip": _made(
        "blip", lambda: {"input_ids": _ids(), "pixel_values": torch.randn(2, 3, 32, 32)}, projection_dim=16,
        text_config={**_TOWER, "vocab_size": 96, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        vision_config={**_TOWER, "image_size": 32, "patch_size": 8},
    ),
    "detr": _made(
        "detr", _picture_and_mask, use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, num_queries=8,
        backbone_config={**_BACKBONE, "model_type": "resnet", "out_features": ["stage4"]}, **_DETECTOR,
    ),
    "rt-detr": _made(
        "rt_detr", lambda: {"pixel_values": torch.randn(1, 3, 64, 64)}, use_pretrained_backbone=False, num_denoising=0,
        encoder_hidden_dim=32, encoder_in_channels=[16, 24, 32], feat_strides=[8, 16, 32], decoder_in_channels=[32, 32, 32],
        num_queries=8, **{**_DETECTOR, "decoder_layers": 3, "encoder_layers": 1},
        backbone_config={**_BACKBONE, "model_type": "rt_detr_resnet", "layer_type": "basic", "out_features": ["stage2", "stage3", "stage4"]},
    ),
    "squeezebert": _encoder("squeezebert", embedding_size=32),
    "xlnet": _made("xlnet", lambda: {"input_ids": _ids()}, vocab_size=96, d_model=32, n_layer=6, n_head=4, d_inner=64),
    # Written after the search was: nothing in it was chosen for these.
    "zamba2": _language(
        "zamba2", num_hidden_layers=8, layers_block_type=["mamba", "mamba", "hybrid"] * 2 + ["mamba"] * 2, mamba_d_state=8, mamba_expand=2,
        n_mamba_heads=8, mamba_headdim=8, mamba_ngroups=1, chunk_size=8, num_key_value_heads=4, num_mem_blocks=1, attention_head_dim=16,
        adapter_rank=8, use_mem_rope=True,
    ),
    "minimax": _language(
        "minimax", layer_types=["linear_attention", "linear_attention", "full_attention"] * 2, num_local_experts=2, num_experts_per_tok=1,
        block_size=8,
    ),
    "exaone4": _language("exaone4", num_hidden_layers=8, sliding_window=8, sliding_window_pattern=4),
    "ernie-moe": _language(
        "ernie4_5_moe", moe_num_experts=4, moe_k=2, moe_intermediate_size=16, moe_layer_start_index=1, moe_layer_interval=2, moe_layer_end_index=5
    ),
    "olmoe": _language("olmoe", num_experts=4, num_experts_per_tok=2),
    "diffllama": _language("diffllama", num_hidden_layers=5),
    "gptj": _language("gptj", n_embd=32, n_layer=5, n_head=4, rotary_dim=4),
    "codegen": _language("codegen", n_embd=32, n_layer=5, n_head=4, rotary_dim=4),
    **{
        kind: _language(kind)
        for kind in (
            "starcoder2", "stablelm", "gemma", "cohere", "nemotron", "persimmon", "phi", "ernie4_5", "hunyuan_v1_dense", "apertus", "arcee",
            "doge", "seed_oss", "glm", "helium",
        )
    },
    "mobilebert": _encoder(
        "mobilebert", num_hidden_layers=5, intermediate_size=32, embedding_size=16, intra_bottleneck_size=16, true_hidden_size=16
    ),
    "fnet": _made("fnet", lambda: {"input_ids": _ids()}, vocab_size=96, hidden_size=32, num_hidden_layers=5, intermediate_size=64),
    "convbert": _made(
        "convbert", lambda: {"input_ids": _ids()}, vocab_size=96, hidden_size=32, num_hidden_layers=5, num_attention_heads=4,
        intermediate_size=64, embedding_size=16,
    ),
    "perceiver": _made(
        "perceiver", lambda: {"inputs": torch.randn(1, 10, 24)}, d_model=24, num_latents=6, d_latents=32, num_blocks=2,
        num_self_attends_per_block=3, num_self_attention_heads=4, num_cross_attention_heads=4,
    ),
    "wav2vec2-conformer": _made(
        "wav2vec2-conformer", lambda: {"input_values": torch.randn(1, 2000), "return_dict": False}, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    ),
    # Chosen in one go, and measured before anybody had looked at one of them: hybrids first.
    "olmo-hybrid": _language("olmo_hybrid", num_hidden_layers=8),
    "kimi-linear": _language(
        "kimi_linear", num_hidden_layers=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, kv_lora_rank=8, q_lora_rank=8,
        num_key_value_heads=4, moe_intermediate_size=16, num_local_experts=4, num_experts_per_tok=2, linear_head_dim=8, linear_num_heads=4,
    ),
    "qwen3-5": _language(
        "qwen3_5_text", num_hidden_layers=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=8,
    ),
    "falcon-mamba": _language("falcon_mamba", attention="eager", state_size=8, time_step_rank=4),
    "xlstm": _language(
        "xlstm", attention="eager", num_heads=4, num_blocks=6, chunkwise_kernel="chunkwise--native_autograd",
        sequence_kernel="native_sequence__native", step_kernel="native", chunk_size=8,
    ),
    "gemma4": _language(
        "gemma4_text", num_hidden_layers=12, sliding_window=8, vocab_size_per_layer_input=96, hidden_size_per_layer_input=8,
        num_kv_shared_layers=4,
    ),
    "vaultgemma": _language("vaultgemma", num_hidden_layers=8, sliding_window=8),
    "mimo-v2": _language("mimo_v2_flash", attention="eager", num_hidden_layers=8, sliding_window=8),
    "granite-swa": _language("granite_swa", attention="eager", num_hidden_layers=8, sliding_window=8),
    "laguna": _language("laguna", num_hidden_layers=8, sliding_window=8),
    "afmoe": _language(
        "afmoe", num_hidden_layers=8, sliding_window=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, num_dense_layers=2,
    ),
    "modernbert-decoder": _language("modernbert-decoder", num_hidden_layers=9, local_attention=8),
    "nanochat": _language("nanochat", num_hidden_layers=6),
    "hrm-text": _language("hrm_text"),
    "zaya": _language("zaya", num_hidden_layers=8),
    "exaone-moe": _language("exaone_moe", num_hidden_layers=8, sliding_window=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "dots1": _language(
        "dots1", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=2, n_group=1, topk_group=1,
        n_shared_experts=1,
    ),
    "bitnet": _language("bitnet"),
    "flex-olmo": _language("flex_olmo", num_experts=4, num_experts_per_tok=2),
    "xglm": _language("xglm", attention="eager", d_model=32, ffn_dim=64, num_layers=5, attention_heads=4),
    "roformer": _encoder("roformer", embedding_size=32),
    "mpnet": _encoder("mpnet"),
    "ibert": _encoder("ibert"),
    "umt5": _sequence("umt5", d_model=32, d_kv=8, d_ff=64, num_layers=4, num_heads=4),
    "pegasus-x": _sequence(
        "pegasus_x", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, block_size=8, num_global_tokens=4,
    ),
    "hiera": _made("hiera", lambda: {"pixel_values": torch.randn(1, 3, 224, 224)}, embed_dim=16),
    "focalnet": _picture("focalnet", 64, embed_dim=16, depths=[2, 2, 4, 2]),
    "segformer": _picture("segformer", 64, hidden_sizes=[8, 16, 24, 32], depths=[2, 2, 2, 2], decoder_hidden_size=16),
    "cvt": _made("cvt", lambda: {"pixel_values": torch.randn(1, 3, 64, 64)}, embed_dim=[16, 32, 64], num_heads=[1, 2, 4], depth=[1, 2, 4]),
    "timesformer": _made(
        "timesformer", lambda: {"pixel_values": torch.randn(1, 2, 3, 32, 32)}, image_size=32, patch_size=8, num_frames=2, hidden_size=32,
        num_hidden_layers=4, num_attention_heads=4, intermediate_size=64,
    ),
    "hubert": _made(
        "hubert", lambda: {"input_values": torch.randn(1, 2000), "return_dict": False}, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    ),
    "patchtst": _made(
        "patchtst", lambda: {"past_values": torch.randn(2, 32, 2)}, num_input_channels=2, context_length=32, patch_length=4, patch_stride=4,
        d_model=32, num_hidden_layers=4, num_attention_heads=4, ffn_dim=64,
    ),
    "swiftformer": _picture("swiftformer", 64, depths=[3, 3, 6, 4], embed_dims=[8, 16, 24, 32]),
    "ghostnet": _timm("ghostnet_100"),
    "repvit": _timm("repvit_m0_9"),
    "davit": _timm("davit_tiny", 224),
    "gcvit": _timm("gcvit_xxtiny", 224),
    "fastvit": _timm("fastvit_t8", 128),
    "tiny-vit": _timm("tiny_vit_5m_224", 224),
    "volo": _timm("volo_d1_224", 224),
    "nest": _timm("nest_tiny", 224),
    "twins": _timm("twins_svt_small", 224),
    "cait": _timm("cait_xxs24_224", 224),
    "beit-timm": _timm("beit_base_patch16_224", 224),
    "eva02": _timm("eva02_tiny_patch14_224", 224),
    "hrnet": _timm("hrnet_w18_small"),
    "dla": _timm("dla34"),
    "res2net": _timm("res2net50_26w_4s"),
    "selecsls": _timm("selecsls42b"),
    "mvit": _timm("mvitv2_tiny", 224),
    # Chosen in one go after those, with a later transformers and timm, and measured before anybody had looked at one of them.
    "bailing-hybrid": _language("bailing_hybrid", num_hidden_layers=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "lfm3": _language("lfm3", num_hidden_layers=8),
    "longcat-flash": _language(
        "longcat_flash", num_layers=3, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, ffn_hidden_size=64,
        expert_ffn_hidden_size=16, n_routed_experts=4, zero_expert_num=2, moe_topk=2, num_key_value_heads=4,
    ),
    "deepseek-v2": _language(
        "deepseek_v2", num_hidden_layers=5, first_k_dense_replace=1, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1, num_key_value_heads=4,
    ),
    "phimoe": _language("phimoe", num_local_experts=4, num_experts_per_tok=2),
    "granite-moe-swa": _language("granitemoe_swa", num_hidden_layers=8, sliding_window=8, num_local_experts=4, num_experts_per_tok=2),
    "hunyuan-moe": _language("hunyuan_v1_moe", num_experts=4, moe_topk=2),
    "minimax-m2": _language("minimax_m2", num_local_experts=4, num_experts_per_tok=2, rotary_dim=8),
    "glm4-moe": _language(
        "glm4_moe", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=2, n_group=1, topk_group=1,
        n_shared_experts=1,
    ),
    "internlm3": _language("internlm3"),
    "mellum": _language("mellum", num_hidden_layers=8, sliding_window=8),
    "ministral": _language("ministral", num_hidden_layers=8, sliding_window=8),
    "biogpt": _language("biogpt"),
    "mpt": _language("mpt", d_model=32, n_heads=4, n_layers=5, max_seq_len=64),
    "gpt-bigcode": _language("gpt_bigcode", n_embd=32, n_layer=5, n_head=4, n_positions=64),
    "rwkv": _language("rwkv", attention_hidden_size=32),
    "rembert": _encoder("rembert", input_embedding_size=16, output_embedding_size=16),
    "nystromformer": _encoder("nystromformer", segment_means_seq_len=8, num_landmarks=4, conv_kernel_size=3),
    "esm": _encoder("esm", position_embedding_type="rotary"),
    "eurobert": _encoder("eurobert"),
    "longt5": _sequence("longt5", d_model=32, d_kv=8, d_ff=64, num_layers=4, num_heads=4, local_radius=4),
    "switch": _sequence(
        "switch_transformers", d_model=32, d_kv=8, d_ff=64, num_layers=6, num_decoder_layers=6, num_sparse_encoder_layers=3,
        num_sparse_decoder_layers=3, num_heads=4, num_experts=2,
    ),
    "mbart": _sequence(
        "mbart", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64,
    ),
    "prophetnet": _sequence(
        "prophetnet", hidden_size=32, num_encoder_layers=4, num_decoder_layers=4, num_encoder_attention_heads=4,
        num_decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
    ),
    "hf-swinv2": _picture("swinv2", 64, patch_size=4, embed_dim=16, depths=[2, 2, 4], num_heads=[2, 2, 4], window_size=4),
    "hgnet-v2": _made("hgnet_v2", lambda: {"pixel_values": torch.randn(1, 3, 64, 64)}),
    "vitdet": _picture(
        "vitdet", 64, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, pretrain_image_size=64, patch_size=8,
        window_block_indices=[0, 1, 3, 4], window_size=4, use_relative_position_embeddings=True,
    ),
    "videomae": _made(
        "videomae", lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, image_size=32, patch_size=8, num_frames=4, hidden_size=32,
        num_hidden_layers=5, num_attention_heads=4, intermediate_size=64,
    ),
    "wavlm": _made(
        "wavlm", lambda: {"input_values": torch.randn(1, 2000), "return_dict": False}, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
    ),
    "patchtsmixer": _made(
        "patchtsmixer", lambda: {"past_values": torch.randn(2, 32, 2)}, context_length=32, patch_length=4, patch_stride=4,
        num_input_channels=2, d_model=16, num_layers=5,
    ),
    "edgenext": _timm("edgenext_xx_small"),
    "crossvit": _timm("crossvit_9_240", 240),
    "visformer": _timm("visformer_tiny", 224),
    "pit": _timm("pit_ti_224", 224),
    "convit": _timm("convit_tiny", 224),
    "resnest": _timm("resnest26d"),
    "dpn": _timm("dpn68"),
    "cspresnet": _timm("cspresnet50"),
    "inception-next": _timm("inception_next_atto"),
    "tresnet": _timm("tresnet_m"),
    "sequencer": _timm("sequencer2d_s", 224),
    "mambaout": _timm("mambaout_femto", 224),
    "starnet": _timm("starnet_s1"),
    "mobilenet-v4": _timm("mobilenetv4_hybrid_medium"),
    "efficientvit": _timm("efficientvit_b1"),
    "efficientvit-msra": _timm("efficientvit_m2", 224),
    "xception": _timm("xception41"),
    "resmlp": _timm("resmlp_12_224", 224),
    "gmlp": _timm("gmlp_s16_224", 224),
    "rdnet": _timm("rdnet_tiny"),
    "hieradet": _timm("sam2_hiera_tiny", 224, img_size=224),
    "shvit": _timm("shvit_s1", 224),
    # A third choice in one go: no test and no other benchmark named these, and each was measured before anybody had looked at it.
    "qwen3.5-moe": _language(
        "qwen3_5_moe_text", num_hidden_layers=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
        linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16,
    ),
    "inkling": _language(
        "inkling_text", num_hidden_layers=12, swa_num_attention_heads=4, swa_num_key_value_heads=2, swa_head_dim=8, sliding_window_size=8,
        d_rel=4, rel_extent=16, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=16,
    ),
    "minicpm3": _language(
        "minicpm3", kv_lora_rank=8, q_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, num_key_value_heads=4,
    ),
    "qwen2-moe": _language(
        "qwen2_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=16, decoder_sparse_step=2,
    ),
    "cohere2-moe": _language("cohere2_moe", num_hidden_layers=8, sliding_window=8, num_experts=4, num_experts_per_tok=2),
    "mistral4": _language(
        "mistral4", head_dim=16, kv_lora_rank=8, q_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, num_key_value_heads=4,
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=2,
    ),
    "kolibri1": _language(
        "kolibri1", num_hidden_layers=10, sliding_window=8, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "muse-glimmer": _language("muse_glimmer_text", num_hidden_layers=8, sliding_window=8),
    "granite-moe-shared": _language("granitemoeshared", num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=32),
    "nomic-bert": _encoder("nomic_bert", head_dim=8),
    "jina-v3": _encoder("jina_embeddings_v3"),
    "roberta-prelayernorm": _encoder("roberta-prelayernorm"),
    "plbart": _sequence(
        "plbart", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, bos_token_id=1, eos_token_id=2,
    ),
    "m2m-100": _sequence(
        "m2m_100", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, bos_token_id=1, eos_token_id=2,
    ),
    "wav2vec2-bert": _made(
        "wav2vec2-bert", lambda: {"input_features": torch.randn(1, 24, 160), "return_dict": False}, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, conv_depthwise_kernel_size=7,
    ),
    "vjepa2": _made(
        "vjepa2", lambda: {"pixel_values_videos": torch.randn(1, 4, 3, 32, 32), "return_dict": False}, patch_size=8, crop_size=32,
        frames_per_clip=4, hidden_size=48, num_attention_heads=4, num_hidden_layers=5, pred_hidden_size=48, pred_num_attention_heads=4,
        pred_num_hidden_layers=3,
    ),
    "pixio": _picture("pixio", patch_size=8, hidden_size=32, num_hidden_layers=5, num_attention_heads=4),
    "vit-msn": _picture("vit_msn", patch_size=8, hidden_size=32, num_hidden_layers=5, num_attention_heads=4, intermediate_size=64),
    "convmixer": _timm("convmixer_768_32", 64),
    "efficientvim": _timm("efficientvim_m1", 224),
    "lowformer": _timm("lowformer_b0", 224),
    "nextvit": _timm("nextvit_small", 224),
    "pnasnet": _timm("pnasnet5large", 96),
    "rexnet": _timm("rexnet_100"),
    "sknet": _timm("skresnet18"),
    "vitamin": _timm("vitamin_small_224", 224),
    "vovnet": _timm("ese_vovnet19b_dw"),
    "inception-resnet-v2": _timm("inception_resnet_v2", 96),
    "repghost": _timm("repghostnet_050"),
    "cspnext": _timm("cspnext_s"),
    # A fourth choice in one go: named nowhere before, and measured before anybody had looked at one of them.
    "cwm": _language("cwm", num_hidden_layers=8, sliding_window=8),
    "ministral3": _language("ministral3", num_hidden_layers=6, sliding_window=8),
    "mistral-large4": _language(
        "mistral_large4_text", num_hidden_layers=6, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
        num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, index_topk=8, index_head_dim=8,
        index_n_heads=2,
    ),
    "dory": _language("dory", num_hidden_layers=8, sliding_window=8, n_input_layers=2, n_output_layers=2),
    "flint": _language(
        "flint", attention="eager", num_hidden_layers=8, sliding_window=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "hy-v3": _language("hy_v3", num_hidden_layers=6, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16),
    "glm-moe-lite": _language(
        "glm4_moe_lite", num_hidden_layers=5, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, kv_lora_rank=8,
        q_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1, num_key_value_heads=4,
    ),
    "solar-open": _language("solar_open", n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_group=1, topk_group=1),
    "youtu": _language(
        "youtu", kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4,
    ),
    "ultrabert": _encoder("ultrabert", num_hidden_layers=9, local_attention=8),
    "t5gemma": _made(
        "t5gemma", lambda: {"input_ids": _ids(), "decoder_input_ids": _ids((2, 8)), "use_cache": False, "return_dict": False},
        encoder={**_LANGUAGE, "sliding_window": 8}, decoder={**_LANGUAGE, "sliding_window": 8, "cross_attention_hidden_size": 32},
    ),
    "blenderbot": _sequence(
        "blenderbot", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
    ),
    "xlm-roberta-xl": _encoder("xlm-roberta-xl"),
    "yolos": _made(
        "yolos", lambda: {"pixel_values": torch.randn(1, 3, 64, 64), "return_dict": False}, image_size=[64, 64], patch_size=8, **_TOWER,
        num_detection_tokens=4,
    ),
    "sew": _made(
        "sew", lambda: {"input_values": torch.randn(1, 2000), "return_dict": False}, hidden_size=32, num_hidden_layers=4,
        num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16, 16), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
        num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, squeeze_factor=2,
    ),
    "vivit": _made(
        "vivit", lambda: {"pixel_values": torch.randn(1, 4, 3, 32, 32), "return_dict": False}, image_size=32, num_frames=4,
        tubelet_size=[2, 8, 8], **_TOWER,
    ),
    "hf-pvt": _picture("pvt", 64, hidden_sizes=[8, 16, 24, 32], depths=[2, 2, 3, 2], num_attention_heads=[1, 2, 3, 4]),
    "coat": _timm("coat_tiny", 224),
    "tnt": _timm("tnt_s_patch16_224", 224),
    "nasnet": _timm("nasnetalarge", 96),
    "iformer": _timm("iformer_s", 224),
    "cpubone": _timm("cpubone_nano"),
    "csatv2": _timm("csatv2", 512),
    "fasternet": _timm("fasternet_t0"),
    "mobilenet-v5": _timm("mobilenetv5_base", 256),
    "botnet": _timm("botnet26t_256", 256),
    "halonet": _timm("eca_halonext26ts", 256),
    "repvgg": _timm("repvgg_a0"),
    "swin-v2-cr": _timm("swinv2_cr_tiny_224", 224),
    "senet": _timm("legacy_seresnext26_32x4d"),
    "vit-relpos": _timm("vit_relpos_small_patch16_224", 224),
    "vit-hybrid": _timm("vit_tiny_r_s16_p8_224", 224),
    "haloregnet": _timm("haloregnetz_b", 224),
    "inception-v4": _timm("inception_v4", 96),
    # Layers of one kind.
    "mamba": _language("mamba", attention="eager", state_size=8, time_step_rank=4),
    "mamba2": _language(
        "mamba2", num_heads=8, head_dim=8, n_groups=1, state_size=8, chunk_size=8, expand=2
    ),
    "llama": _language("llama"),
    "mistral": _language("mistral", sliding_window=8),
    "mixtral": _language("mixtral", num_local_experts=4, num_experts_per_tok=2),
    "qwen2": _language("qwen2"),
    "qwen3": _language("qwen3"),
    "qwen3-moe": _language("qwen3_moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, decoder_sparse_step=2),
    "deepseek-v3": _language(
        "deepseek_v3", num_hidden_layers=5, first_k_dense_replace=2, n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
        n_group=1, topk_group=1, num_key_value_heads=4,
    ),
    "phi3": _language("phi3"),
    "gpt-neox": _language("gpt_neox"),
    "gpt2": _language("gpt2", n_embd=32, n_layer=6, n_head=4, n_positions=64),
    "gpt-neo": _language(
        "gpt_neo", num_layers=6, num_heads=4, attention_types=[[["global", "local"], 3]], window_size=8, attention="eager"
    ),
    "opt": _language("opt", ffn_dim=64, word_embed_proj_dim=32),
    "bloom": _language("bloom", n_layer=6, n_head=4),
    "falcon": _language("falcon"),
    "olmo2": _language("olmo2"),
    "glm4": _language("glm4"),
    "granite": _language("granite"),
    "bert": _encoder("bert"),
    "roberta": _encoder("roberta"),
    "distilbert": _encoder("distilbert", dim=32, n_layers=6, n_heads=4, hidden_dim=64),
    "albert": _encoder("albert", embedding_size=16, num_hidden_groups=2),
    "deberta-v2": _encoder("deberta-v2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "electra": _encoder("electra", embedding_size=32),
    "t5": _sequence("t5", d_model=32, d_kv=8, d_ff=64, num_layers=4, num_heads=4),
    "bart": _sequence(
        "bart", d_model=32, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
    ),
    "whisper": _whisper,
    "hf-vit": _picture("vit", patch_size=8, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, intermediate_size=64),
    "hf-swin": _picture("swin", 64, patch_size=4, embed_dim=16, depths=[2, 2, 4], num_heads=[2, 2, 4], window_size=4),
    "dinov2": _picture("dinov2", patch_size=8, hidden_size=32, num_hidden_layers=6, num_attention_heads=4),
    "resnet18": _vision("resnet18"),
    "resnet50": _vision("resnet50"),
    "wide-resnet": _vision("wide_resnet50_2"),
    "resnext": _vision("resnext50_32x4d"),
    "densenet": _vision("densenet121"),
    "efficientnet": _vision("efficientnet_b0"),
    "efficientnet-v2": _vision("efficientnet_v2_s"),
    "mobilenet-v3": _vision("mobilenet_v3_large"),
    "regnet": _vision("regnet_y_400mf"),
    "mnasnet": _vision("mnasnet1_0"),
    "shufflenet": _vision("shufflenet_v2_x1_0"),
    "googlenet": _vision("googlenet", init_weights=False, aux_logits=False),
    "inception": _vision("inception_v3", 96, init_weights=False, aux_logits=False),
    "vgg": _vision("vgg16_bn"),
    "swin-t": _vision("swin_t"),
    "swin-v2": _vision("swin_v2_t"),
    "convnext": _vision("convnext_tiny"),
    "vit-b": _vision("vit_b_16", 64, image_size=64),
    "maxvit": _vision("maxvit_t", 224),
    "coatnet": _timm("coatnet_nano_rw_224", 224),
    "maxvit-timm": _timm("maxvit_nano_rw_256", 256),
    "convnext-v2": _timm("convnextv2_atto"),
    "mixer": _timm("mixer_s32_224", 224),
    "deit3": _timm("deit3_small_patch16_224", 224),
    "efficientformer": _timm("efficientformerv2_s0", 224),
    "nfnet": _timm("nfnet_l0"),
    "poolformer": _timm("poolformer_s12"),
    "pvt-v2": _timm("pvt_v2_b0"),
    "mobilevit": _timm("mobilevit_s"),
    "metaformer": _timm("caformer_s18"),
    "levit": _timm("levit_128s", 224),
    "xcit": _timm("xcit_nano_12_p16_224", 224),
}  # fmt: skip


def build(name: str) -> Example:
    """The model for inference, its positional and its named inputs."""
    torch.manual_seed(0)
    model, args, kwargs = ARCHITECTURES[name]()
    return model.eval(), args, kwargs


def arguments(doc: str, names: Iterable[str]) -> argparse.ArgumentParser:
    """What benchmarks of these models are told."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tools", type=Path, default=Path("build/bin"))
    parser.add_argument("--only", nargs="*", default=list(names))
    parser.add_argument(
        "--keep", type=Path, help="what is made of models stays here, and is made once"
    )
    parser.add_argument("-o", "--output", type=Path)
    return parser


def measured(
    names: Iterable[str], keep: Path | None, measure: Callable[[str, Path], dict[str, Any]]
) -> list[dict[str, Any]]:
    """A line for each model, which is printed; what fails is named and left out, as it is another project's model, tracer or exporter."""
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            try:
                line = measure(name, folder)
            except Exception as error:
                reason = str(error).strip().splitlines()
                print(
                    f"{name}: left out: {reason[0] if reason else type(error).__name__}",
                    file=sys.stderr,
                )
                continue
            print(json.dumps(line), flush=True)
            lines.append(line)
    return lines


def write_lines(lines: Iterable[dict[str, Any]], output: Path | None) -> None:
    if output:
        output.write_text("".join(json.dumps(line) + "\n" for line in lines))
