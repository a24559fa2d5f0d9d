"""Build functions by reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fidelity import (
    blurs,
    collectives,
    further,
    halos,
    machines,
    networks,
    pods,
    products,
    recurrent,
    solvers,
    sparse,
    stencils,
    training_networks,
    transformers,
    vectors,
    vision,
    workshop,
)

__all__ = ["BUILDERS", "NETWORKS", "PODS"]

BUILDERS: Mapping[str, Callable[[], Mapping[str, float]]] = {
    "C1": products.matrix_vector,
    "C2": products.on_tile,
    "C3": vectors.addition,
    "C4": vectors.triad,
    "C5": products.attention_scores,
    "C6": products.large_products,
    "C7": products.float8_products,
    "C8": vectors.float8_cast,
    "C9": vectors.scores_exchange,
    "C10": machines.one_word,
    "C11": vectors.softmax,
    "C12": vectors.scores_copy,
    "C13": products.chained_time,
    "C14": products.chained_memory,
    "C15": machines.one_addition,
    "C16": stencils.blur,
    "C21": stencils.heat,
    "C24": machines.host_link,
    "F1": further.recorded_products,
    "F2": further.scaled_additions,
    "F3": further.ten_floats,
    "F4": further.rotation,
    "F5": further.last_sums,
    "F6": blurs.times_on_one,
    "F7": blurs.phases_on_sixteen,
    "F8": blurs.times_on_several,
    "F9": solvers.heart,
    "F10": solvers.heat_in_three,
    "F11": solvers.heat_on_several,
    "F12": further.first_layer_plan,
    "F13": halos.implicit_halos,
    "F14": halos.zeroed_block,
    "F15": blurs.convolved,
    "F16": products.matrix_vector_on_first,
    "F17": products.matrix_vector_programs,
    "F22": recurrent.split_updates,
    "F23": collectives.by_size,
    "F24": collectives.by_method,
    "F27": workshop.training_step,
}

#: Whole networks, which take minutes each: `make networks` builds them, `make fidelity` keeps their
#: rows of the packaged table.
NETWORKS: Mapping[str, Callable[[], Mapping[str, float]]] = {
    "C17": networks.resnet_rates,
    "C18": networks.largest_batch,
    "C19": transformers.bert_rates,
    "C20": vision.encoder_figures,
    "F18": transformers.bert_rates_by_batch,
    "F19": training_networks.batch_norm_of_one,
    "F20": training_networks.group_norm_of_one,
    "F21": training_networks.batch_norm_of_two,
    "F28": sparse.static_rates,
}

#: Training steps on Pods, likewise: `make pods` builds them.
PODS: Mapping[str, Callable[[], Mapping[str, float]]] = {
    "C22": pods.resnet_rate,
    "F25": pods.bert_rate,
    "F26": pods.conformer_ratios,
}
