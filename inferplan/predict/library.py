"""The only module that knows aiconfigurator: times of an engine's steps and its memory, from
kernels measured on real accelerators.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import yaml

from inferplan.predict import bands
from inferplan.predict.configurations import UnknownSpeedError, stated_config
from inferplan.tables import table

_PACKAGE = "aiconfigurator-core"
_MODULE = "aiconfigurator_core"
MEASURE = (
    "Measure it: add it to inferplan:benchmark and keep the result (inferplan docs prediction)"
)
INSTALL = "Install inferplan's wheel with the extra predict: inferplan docs installing"
# Prefixes and suffixes of model names that change no layer, such as those of instruction tuning.
_SAME_LAYERS = re.compile(r"^meta-|-(instruct|it|chat|base|hf)(?=-|$)")

# Endings of names of quantized copies, whose layers are those of the model without them.
_QUANTIZED_COPY = re.compile(
    r"[-_.](awq|gptq|gguf|fp8|fp4|nvfp4|mxfp4|int[48]|[48]bit|bnb|w[48]a(?:16|8)|q[2-8](?:_[a-z0-9]+)*)(?=[-_.]|$)"
)
# The architecture of models with one kind of layer and full attention.
_PLAIN = "LlamaForCausalLM"
_OTHER_LAYERS = (
    *("num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank", "block_configs"),
    *("hybrid_override_pattern", "layers_block_type"),
)
# The length of a sequence, in tokens, that fills the cache of sliding-window layers.
_LONG = 4096
# Activations of a token in widths of the model, by the largest tensor parallel size: the library's
# default for dense models.
_ACTIVATIONS = ((1, 10), (2, 6), (64, 5))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes on one accelerator: of the weights, of what else the engine holds, of the whole
    accelerator, and of a token in the KV cache.
    """

    weights: float
    other: float
    capacity: float
    per_token: float


def tables() -> Mapping[str, Mapping[str, Any]]:
    return table("predict/data/library.toml")


@cache
def known_models() -> tuple[str, ...]:
    """The models whose layers the library knows, as Hugging Face names them. Nothing of the library
    is imported.
    """
    spec = find_spec(_MODULE)
    if spec is None or not spec.submodule_search_locations:
        raise UnknownSpeedError(
            "aiconfigurator-core is not installed, so nothing is predicted",
            INSTALL,
        )
    names = (each.name for each in files(_MODULE).joinpath("model_configs").iterdir())
    return tuple(
        sorted(
            name.removesuffix("_config.json").replace("--", "/")
            for name in names
            if not name.endswith("_quant_config.json")
        )
    )


def library_model(name: str) -> tuple[str, str | None, str | None]:
    """The library's name of the model `name`, and the quantizations of weights and cache that the
    name implies. Raises UnknownSpeedError.
    """
    aliases = {_key(alias): target for alias, target in tables()["aliases"].items()}
    by_key = {_key(each): each for each in reversed(known_models())} | aliases
    match = by_key.get(_key(name))
    is_file = name.endswith("config.json")
    if match is None and stated_config(name) and (is_file or base_of(name) == name.lower()):
        return name, None, None
    if match is None:
        same = by_key.get(_key(base_of(name)))
        example = f", such as {same.split()[0]}" if same else ""
        raise UnknownSpeedError(
            f"aiconfigurator {_version()} does not know the layers of {name!r}",
            f"Set traffic.model to the published model with the same layers{example}, or to its"
            " config.json below the project's folder, or measure it (inferplan docs prediction)",
        )
    model, *quantizations = match.split()
    weights, cache_type = quantizations or (None, None)
    return model, weights, cache_type


def borrowed(model: str) -> bool:
    """Tell if the library lacks the architecture of `model` or its number of heads, so that plain
    layers of about the same size replace it in the forecast.
    """
    config = stated_config(model)
    if config is None:
        return False
    from aiconfigurator_core.sdk.common import ARCHITECTURE_TO_MODEL_FAMILY

    named, heads = config.get("architectures"), _shared_heads(config.get("text_config") or config)
    return bool(heads & (heads - 1)) or (
        bool(named) and named[0] not in ARCHITECTURE_TO_MODEL_FAMILY
    )


def _shared_heads(config: Mapping[str, Any]) -> int:
    return config.get("num_key_value_heads") or config["num_attention_heads"]


def _key(name: str) -> str:
    return _SAME_LAYERS.sub("", name.rpartition("/")[2].lower())


def base_of(name: str) -> str:
    """The name of the model that `name` is a quantized copy of; `name` itself for others."""
    return _QUANTIZED_COPY.sub("", name.lower())


def _version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "?"


class Kernels:
    """Times of the steps of one replica in seconds. Every call raises UnknownSpeedError for what
    was not measured.
    """

    def __init__(
        self,
        *,
        model: str,
        accelerator: str,
        framework: str,
        tensor_parallel_size: int = 1,
        pipeline_parallel_size: int = 1,
        quantization: str | None = None,
        cache_type: str | None = None,
    ) -> None:
        self.framework, self.system = framework, _listed("systems", accelerator)
        self.model, weights, cached = library_model(model)
        self._subject = f"{self.model} on {accelerator} with {framework}"
        size = tensor_parallel_size
        self._parallel = {
            "tp_size": size,
            "pp_size": pipeline_parallel_size,
            "moe_tp_size": size,
            "moe_ep_size": 1,
        }
        self._quantized = {
            name: None if value is None else _listed(name, value)
            for name, value in (
                ("gemm_quant_mode", quantization or weights),
                ("moe_quant_mode", quantization if quantization == "fp8" else None),
                ("kvcache_quant_mode", cache_type or cached),
            )
        }
        self._outside = float(tables()["outsideKernels"].get(framework, 0.0))
        self._share = bands.share_of(self.framework, self.system, self.model)
        self._seconds = cache(self._measured)
        self._handle = self._call(self._compile)

    @property
    def accelerators(self) -> int:
        return self._parallel["tp_size"] * self._parallel["pp_size"]

    @property
    def answer_held(self) -> float:
        """The share of an answer that a request holds in the KV cache on average."""
        return float(tables()["answerHeld"].get(self.framework, 0.5))

    def _compile(self) -> Any:
        logging.getLogger(_MODULE).setLevel(logging.CRITICAL)
        from aiconfigurator_core.sdk import perf_database, utils
        from aiconfigurator_core.sdk.engine import EngineHandle

        # It would ask a hub for what it lacks, with the token of this shell.
        utils._download_hf_json = self._stated  # noqa: SLF001 - the library has no switch for it
        # The library reads its tables of systems again for each model, in pure Python: half of the
        # time of a plan.
        fast = {
            "safe_load": partial(yaml.load, Loader=yaml.CSafeLoader),
            "SafeLoader": yaml.CSafeLoader,
        }
        perf_database.yaml = SimpleNamespace(**(vars(yaml) | fast))
        self.data = perf_database.resolve_query_version(self.system, self.framework, "current")
        return EngineHandle.compile(
            self.model, self.system, self.framework, **self._parallel, **self._quantized
        )

    def _stated(self, model: str, filename: str, **_: object) -> dict[str, Any] | None:
        """A file of a model that the library lacks; the library would download it from a hub."""
        config = stated_config(model)
        if config is None:
            raise UnknownSpeedError(
                f"aiconfigurator {_version()} has no measured kernels for the layers of {model}",
                MEASURE,
            )
        if filename != "config.json":
            return None
        defaults = {"max_position_embeddings": 131_072}
        if not borrowed(model) and config.get("architectures"):
            return {**defaults, **config}
        plain = config.get("text_config") or config
        kinds = {*(plain.get("layer_types") or ())} - {"full_attention"}
        if kinds or any(plain.get(each) for each in _OTHER_LAYERS):
            raise UnknownSpeedError(
                f"aiconfigurator {_version()} does not know the layers of {model}, and they are"
                " not of one kind",
                MEASURE,
            )
        # Attention was measured for powers of two.
        heads = 1 << (_shared_heads(plain).bit_length() - 1)
        changed = {"architectures": [_PLAIN], "num_key_value_heads": heads}
        return {**defaults, **plain, **changed}

    @property
    def basis(self) -> str:
        """The library, its version, and its data set."""
        return (
            f"aiconfigurator {_version()}, kernels of {self.framework} {self.data} on {self.system}"
        )

    def prefill(self, new: int, cached: int, batch: int, context: int, answer: int) -> float:
        """The step that reads `new` tokens of a prompt while `batch` requests get a token each."""
        if not batch:
            return self._seconds("predict_prefill_latency", 1, new + cached, cached)
        both = self._seconds("mixed_step_latency", new, batch, context, answer, cached)
        if self._share == 1:
            return both
        alone = self._seconds("decode_step_latency", batch, context, answer)
        return max(both - (1 - self._share) * alone, self._share * both)

    def decode(self, batch: int, context: int, answer: int) -> float:
        """The step that gives each of `batch` requests one token."""
        return self._share * self._seconds("decode_step_latency", batch, context, answer)

    def _measured(self, method: str, *arguments: int) -> float:
        milliseconds = self._call(getattr(self._handle, method), *arguments)
        if (tier := self._handle.last_provenance()) is not None:
            raise UnknownSpeedError(
                f"aiconfigurator estimates this step ({tier}) and has not measured it", MEASURE
            )
        return milliseconds / 1000 + self._outside

    def memory(self, tokens_per_step: int) -> Memory:
        return self._call(self._memory, tokens_per_step)

    def _memory(self, tokens_per_step: int) -> Memory:
        # Not through the library's own estimate, which imports pandas: that takes longer than the
        # answer.
        from aiconfigurator_core.sdk.config_builders import build_model_config
        from aiconfigurator_core.sdk.models import get_model
        from aiconfigurator_core.sdk.perf_database import get_database

        size = self._parallel["tp_size"]
        model = get_model(
            self.model,
            build_model_config(attention_dp_size=1, **self._parallel, **self._quantized),
            self.framework,
        )
        spec = get_database(self.system, self.framework, self.data).system_spec
        links = {
            count: amount for count, amount in spec["misc"]["nccl_mem"].items() if count <= size
        }
        factor = next(each for limit, each in _ACTIVATIONS if size <= limit)
        cached = model.get_kvcache_bytes_per_sequence
        width = model._num_heads * model._head_size  # noqa: SLF001 - the library has no other name for it
        return Memory(
            weights=sum(each.get_weights() for each in model.context_ops)
            / self._parallel["pp_size"],
            other=spec["misc"]["other_mem"]
            + links[max(links)]
            + 2 * tokens_per_step * width * factor,
            capacity=spec["gpu"]["mem_capacity"],
            # Linear-attention and sliding-window layers cache no more for a longer sequence.
            per_token=(cached(_LONG + 1) - cached(1)) / _LONG,
        )

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call the library, whose errors are of many types. None of them may end a plan."""
        try:
            return function(*arguments)
        except UnknownSpeedError:
            raise
        except Exception as error:  # noqa: BLE001 - see above
            text = re.sub(r"/\S*/site-packages/", "", " ".join(str(error).split()))[:200]
            raise UnknownSpeedError(
                f"aiconfigurator {_version()} cannot predict {self._subject}: {text}", MEASURE
            ) from None


def _listed(name: str, value: str) -> str:
    """The library's word for `value` in the table `name`. Raises UnknownSpeedError for one that it
    does not have.
    """
    words = tables()[name]
    if value not in words:
        own = "" if name == "systems" else ", and for the checkpoint's own type"
        remedy = f"It has them for {', '.join(words)}{own}. {MEASURE}"
        raise UnknownSpeedError(
            f"aiconfigurator {_version()} has no measured kernels for {value}", remedy
        )
    return words[value]


kernels = cache(Kernels)
