"""A fourth set of models of launch_oracle.py: the newer kinds of transformers (5.24), tiny, with random weights. State spaces
and hybrids, mixtures of experts, audio, speech, detection, segmentation, depth, series of time; none was here before.

    python benchmarks/launch_oracle.py record FOLDER --models library_models
"""

import importlib.util
from typing import Any

import torch
from oracle_models import Lambda, OracleModel
from torch import Tensor

MODELS: dict[str, Any] = {}


def _first(result: Any) -> Tensor:
    """The first tensor of what a model returns."""
    leaves = torch.utils._pytree.tree_leaves(result)
    return next(t for t in leaves if isinstance(t, Tensor) and t.is_floating_point())


def _transformers(
    name: str, config: str, *inputs: Any, train: bool = False, part: str = "", **sizes: Any
) -> None:
    """A model of transformers, or a part of it, called with tensors or with what is given by shape; a number more is ids below it."""

    def make() -> OracleModel:
        import transformers

        settings = getattr(transformers, config)(**sizes)
        settings.use_cache = False
        net = getattr(transformers, name)(settings)
        net = net.get_submodule(part)
        given = tuple(t() if callable(t) else t for t in inputs)
        return OracleModel(Lambda(lambda m, *a: _first(m.net(*a)), net=net), given, train=train)

    MODELS[name + (f"_{part}" if part else "") + ("_train" if train else "")] = make


def _ids(*shape: int, below: int = 64) -> Any:
    return lambda: torch.randint(2, below, shape)


def _image(*shape: int) -> Any:
    return lambda: torch.randn(shape)


_SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": 64,
}  # fmt: skip
_TEXT: dict[str, Any] = {
    **_SMALL, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 1,
}  # fmt: skip
_WORDS = _ids(2, 8)

if importlib.util.find_spec("transformers"):
    # State spaces, and hybrids of them with attention.
    _transformers(
        "JambaModel", "JambaConfig", _WORDS, **_TEXT, num_experts=4, num_experts_per_tok=2, attn_layer_period=2, attn_layer_offset=1,
        expert_layer_period=2, expert_layer_offset=1, mamba_d_state=4, mamba_dt_rank=4, use_mamba_kernels=False,
    )  # fmt: skip
    _transformers(
        "BambaModel", "BambaConfig", _WORDS, train=True, **_TEXT, attn_layer_indices=[1], mamba_n_heads=4, mamba_d_head=16,
        mamba_n_groups=1, mamba_d_state=8, mamba_chunk_size=4, mamba_expand=2,
    )  # fmt: skip
    _transformers(
        "FalconH1Model", "FalconH1Config", _WORDS, **_TEXT, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_n_groups=1,
        mamba_d_state=8, mamba_chunk_size=4, head_dim=8,
    )  # fmt: skip
    _transformers("RwkvModel", "RwkvConfig", _WORDS, vocab_size=64, hidden_size=16, num_hidden_layers=2, context_length=16)  # fmt: skip
    _transformers("RwkvModel", "RwkvConfig", _ids(1, 4), train=True, vocab_size=64, hidden_size=8, num_hidden_layers=2, context_length=16)  # fmt: skip
    _transformers(
        "RecurrentGemmaModel", "RecurrentGemmaConfig", _WORDS, **{**_TEXT, "num_hidden_layers": 3}, lru_width=32, attention_window_size=8,
        head_dim=8,
    )  # fmt: skip
    _transformers(
        "Qwen3NextModel", "Qwen3NextConfig", _WORDS, **_TEXT, head_dim=8, linear_num_value_heads=4, linear_num_key_heads=2,
        linear_key_head_dim=8, linear_value_head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        shared_expert_intermediate_size=16, layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    _transformers("xLSTMModel", "xLSTMConfig", _WORDS, vocab_size=64, hidden_size=32, num_blocks=1, num_hidden_layers=1, num_heads=2, chunk_size=4, return_last_states=True)  # fmt: skip
    _transformers("Lfm2Model", "Lfm2Config", _WORDS, train=True, **_TEXT, layer_types=["conv", "full_attention"])  # fmt: skip
    # Mixtures of experts.
    _transformers("GptOssModel", "GptOssConfig", _WORDS, **_TEXT, head_dim=8, num_local_experts=4, num_experts_per_tok=2)  # fmt: skip
    _transformers(
        "DeepseekV3Model", "DeepseekV3Config", _WORDS, **{**_TEXT, "num_key_value_heads": 4}, moe_intermediate_size=16, n_routed_experts=4,
        num_experts_per_tok=2, n_group=2, topk_group=1, kv_lora_rank=8, q_lora_rank=12, qk_rope_head_dim=4, qk_nope_head_dim=8,
        v_head_dim=8, first_k_dense_replace=1,
    )  # fmt: skip
    _transformers("OlmoeModel", "OlmoeConfig", _WORDS, train=True, **_TEXT, num_experts=4, num_experts_per_tok=2)  # fmt: skip
    _transformers(
        "GraniteMoeHybridModel", "GraniteMoeHybridConfig", _WORDS, **_TEXT, layer_types=["mamba", "attention"], mamba_n_heads=4,
        mamba_d_head=16, mamba_d_state=8, mamba_chunk_size=4, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=16,
    )  # fmt: skip
    _transformers("Gemma3TextModel", "Gemma3TextConfig", _WORDS, train=True, **_TEXT, head_dim=8, sliding_window=4, layer_types=["sliding_attention", "full_attention"])  # fmt: skip
    # Audio and speech.
    _transformers(
        "ASTModel", "ASTConfig", _image(2, 24, 16), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        patch_size=8, frequency_stride=4, time_stride=4, max_length=24, num_mel_bins=16,
    )  # fmt: skip
    _transformers(
        "WhisperModel", "WhisperConfig", _image(1, 8, 32), None, _ids(1, 6), d_model=16, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=24, num_mel_bins=8, vocab_size=64,
        max_source_positions=16, max_target_positions=16, pad_token_id=0, decoder_start_token_id=1,
    )  # fmt: skip
    _transformers(
        "Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", _image(1, 400), conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, mask_time_prob=0.0, position_embeddings_type="relative",
        conv_depthwise_kernel_size=7, **_SMALL,
    )  # fmt: skip
    _transformers("EncodecModel", "EncodecConfig", _image(1, 1, 320), hidden_size=8, num_filters=4, upsampling_ratios=[4, 2], num_lstm_layers=1, codebook_dim=8, codebook_size=16, target_bandwidths=[24.0], part="encoder")  # fmt: skip
    _transformers("DacModel", "DacConfig", _image(1, 1, 256), encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=16, n_codebooks=2, codebook_size=16, codebook_dim=4)  # fmt: skip
    # Images: detection, segmentation, depth, points.
    _transformers("SegformerForSemanticSegmentation", "SegformerConfig", _image(1, 3, 64, 64), train=True, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16, num_labels=3)  # fmt: skip
    _transformers("YolosForObjectDetection", "YolosConfig", _image(1, 3, 32, 48), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=[32, 48], patch_size=8, num_detection_tokens=5)  # fmt: skip
    _transformers("DPTForDepthEstimation", "DPTConfig", _image(1, 3, 32, 32), hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8, backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16)  # fmt: skip
    _transformers("GLPNForDepthEstimation", "GLPNConfig", _image(1, 3, 64, 64), train=True, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=16)  # fmt: skip
    _transformers("SamVisionModel", "SamVisionConfig", _image(1, 3, 32, 32), hidden_size=16, output_channels=8, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=4, window_size=3, global_attn_indexes=[1], mlp_dim=24)  # fmt: skip
    _transformers("Swin2SRModel", "Swin2SRConfig", _image(1, 3, 16, 16), image_size=16, patch_size=1, embed_dim=12, depths=[2], num_heads=[2], window_size=4)  # fmt: skip
    _transformers("FocalNetModel", "FocalNetConfig", _image(1, 3, 32, 32), train=True, image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], focal_levels=[2, 2], focal_windows=[3, 3], hidden_sizes=[8, 16])  # fmt: skip
    _transformers("HieraModel", "HieraConfig", _image(1, 3, 64, 64), image_size=[64, 64], embed_dim=16, depths=[1, 2], num_heads=[1, 2], num_query_pool=1, patch_stride=[4, 4], patch_size=[7, 7], query_stride=[2, 2], masked_unit_size=[4, 4])  # fmt: skip
    _transformers("PvtV2Model", "PvtV2Config", _image(1, 3, 64, 64), image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 3, 4], linear_attention=True)  # fmt: skip
    # Series of time, and text of other kinds.
    _transformers("PatchTSTModel", "PatchTSTConfig", _image(2, 32, 3), num_input_channels=3, context_length=32, patch_length=8, patch_stride=4, d_model=16, num_hidden_layers=2, num_attention_heads=2, ffn_dim=24)  # fmt: skip
    _transformers("PatchTSMixerModel", "PatchTSMixerConfig", _image(2, 32, 3), train=True, num_input_channels=3, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2)  # fmt: skip
    _transformers("DebertaV2Model", "DebertaV2Config", _WORDS, **_SMALL, relative_attention=True, pos_att_type=["p2c", "c2p"], max_position_embeddings=32, position_buckets=8, share_att_key=True, norm_rel_ebd="layer_norm")  # fmt: skip
    _transformers("FunnelBaseModel", "FunnelConfig", _WORDS, vocab_size=64, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8, d_inner=24)  # fmt: skip
    _transformers("ModernBertModel", "ModernBertConfig", _WORDS, train=True, **_SMALL, local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=1, cls_token_id=1, sep_token_id=1)  # fmt: skip
    _transformers("CanineModel", "CanineConfig", _ids(1, 32), **{**_SMALL, "num_hidden_layers": 1}, max_position_embeddings=64, num_hash_functions=2, num_hash_buckets=32, local_transformer_stride=8, upsampling_kernel_size=4)  # fmt: skip
