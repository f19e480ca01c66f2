"""Small models of timm and transformers, with random weights, that were profiled and proven as a user does it (benchmarks/results/user-models-cpu.md);
launch_oracle.py records them too (`--models user_models`). Those whose packages are missing are left out."""

import functools
import importlib.util
from typing import Any

import torch
from oracle_models import Lambda, OracleModel

MODELS: dict[str, Any] = {}
#: Those that were trained.
TRAINED = ("glm", "mpnet", "tnt", "vitdet", "biogpt", "convit")


def _timm(key: str, name: str, size: int, **options: Any) -> None:
    def make() -> OracleModel:
        import timm

        net = timm.create_model(name, pretrained=False, num_classes=10, **options)
        return OracleModel(net, (torch.randn(1, 3, size, size),), train=key in TRAINED)

    MODELS[key] = make


def _transformers(key: str, name: str, given: Any, *, cached: bool = False, **sizes: Any) -> None:
    def make() -> OracleModel:
        import transformers

        net = getattr(transformers, name + "Model")(getattr(transformers, name + "Config")(**sizes))
        options = {"return_dict": False, **({"use_cache": False} if cached else {})}
        module = Lambda(lambda m, *a: m.net(*a, **options)[0], net=net)
        return OracleModel(module, (given(),), train=key in TRAINED)

    MODELS[key] = make


def _ids(count: int = 100, length: int = 16, batch: int = 2) -> Any:
    return functools.partial(torch.randint, 1, count, (batch, length))


_HEADS: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2}
_SMALL: dict[str, Any] = {**_HEADS, "hidden_size": 32, "intermediate_size": 48}
_TEXT: dict[str, Any] = {**_SMALL, "vocab_size": 100, "max_position_embeddings": 40}
_image = functools.partial(torch.randn, 1, 3, 32, 32)

if importlib.util.find_spec("timm"):
    _FOUR = (1, 1, 1, 1)
    _timm("convit", "convit_tiny", 32, img_size=32, patch_size=8, embed_dim=16, depth=3, num_heads=4, local_up_to_layer=2)  # fmt: skip
    _timm("efficientformer", "efficientformer_l1", 224, depths=(1, 1, 1, 2), embed_dims=(8, 16, 24, 48))  # fmt: skip
    _timm("fastvit", "fastvit_t8", 64, layers=_FOUR, embed_dims=(16, 32, 64, 128))
    _timm("hrnet", "hrnet_w18_small", 64)
    _timm("mambaout", "mambaout_femto", 64, depths=_FOUR, dims=(16, 24, 32, 40))
    _timm("res2net", "res2net50_14w_8s", 64, layers=_FOUR)
    _timm("sequencer", "sequencer2d_s", 64, img_size=64, layers=_FOUR, embed_dims=(16, 32, 32, 32), hidden_sizes=(8, 8, 8, 8))  # fmt: skip
    _timm("starnet", "starnet_s1", 64, base_dim=8, depths=_FOUR)
    _timm("tnt", "tnt_s_legacy_patch16_224", 32, img_size=32, depth=2, embed_dim=32, inner_dim=8, num_heads_outer=2, num_heads_inner=2)  # fmt: skip
    _timm("twins", "twins_svt_small", 64, img_size=64, depths=list(_FOUR), embed_dims=[16, 32, 32, 32], num_heads=[2, 2, 4, 4])  # fmt: skip
if importlib.util.find_spec("transformers"):
    _transformers("biogpt", "BioGpt", _ids(), cached=True, **_TEXT)
    _transformers(
        "canine", "Canine", _ids(100, 32, 1), **{**_SMALL, "num_hidden_layers": 1}, max_position_embeddings=128, num_hash_buckets=64,
        num_hash_functions=2, local_transformer_stride=8, upsampling_kernel_size=4, downsampling_rate=4,
    )  # fmt: skip
    _transformers("codegen", "CodeGen", _ids(), cached=True, vocab_size=100, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=40, n_ctx=40)  # fmt: skip
    _transformers("data2vec", "Data2VecVision", _image, **_SMALL, image_size=32, patch_size=8, use_relative_position_bias=True)  # fmt: skip
    _transformers("glm", "Glm", _ids(), cached=True, **{**_TEXT, "num_attention_heads": 4}, num_key_value_heads=2, head_dim=8, pad_token_id=0)  # fmt: skip
    _transformers("ibert", "IBert", _ids(), **{**_TEXT, "num_hidden_layers": 1}, quant_mode=True)
    _transformers("mpnet", "MPNet", _ids(), **_TEXT)
    _transformers(
        "vitdet", "VitDet", _image, **_HEADS, hidden_size=32, image_size=32, pretrain_image_size=32, patch_size=4, window_block_indices=[0],
        residual_block_indices=[1], window_size=4, use_relative_position_embeddings=True,
    )  # fmt: skip
    _transformers(
        "vits", "Vits", _ids(30, 8, 1), vocab_size=38, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=16, flow_size=16,
        spectrogram_bins=17, upsample_initial_channel=16, upsample_rates=[2, 2], upsample_kernel_sizes=[4, 4], resblock_kernel_sizes=[3],
        resblock_dilation_sizes=[[1, 3]], prior_encoder_num_flows=1, prior_encoder_num_wavenet_layers=1, posterior_encoder_num_wavenet_layers=1,
        duration_predictor_num_flows=1, depth_separable_num_layers=1, noise_scale=0.0, noise_scale_duration=0.0,
    )  # fmt: skip
