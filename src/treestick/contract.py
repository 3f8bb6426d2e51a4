"""What a node model must provide, and the registry that the moves find it by.

A node model says what a node's parameters ``theta`` are, how a child's come from its parent's, and
how data come from them. It is one file: a named tuple that holds the model's hyperparameters, a
compiled function for each entry of :class:`NodeModel`, and one call of :func:`register`.

Rule 1. Moves see this module, never a model. They call :func:`log_likelihood` and its like below,
which stand for the functions of whichever model is among the arguments. Numba chooses by the *type*
of the named tuple while it compiles, so a move is compiled once for each model, calls nothing
through a pointer, and is served from the disk cache. (Functions passed as arguments would miss it.)
Rule 2. ``theta``, ``prepared`` and ``statistics`` are rows of floats, one per node, of the widths
that :func:`widths` names. What they hold is the model's affair. ``prepared`` is what
:func:`log_likelihood` wants to read: computed once per node, used for many data.
Rule 3. ``data`` is a named tuple of arrays, in the form that suits the model; datum ``n`` is row n.
Rule 4. Statistics add up over data. What they leave out of the data, updates cannot depend on.
Rule 5. A function changes what its docstring says it writes, and nothing else.
"""

# mypy: disable-error-code="empty-body"
# The functions below that have only a docstring are replaced by the decorator above them.

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from treestick._jit import standing_for


class NodeModel(NamedTuple):
    """The functions of one model. All are compiled, and described by their namesakes below."""

    name: str
    parameters: type
    """The class of the named tuple that holds the hyperparameters; functions get an instance."""
    widths: Callable[..., Any]
    draw_hyperparameters: Callable[..., Any]
    draw_root: Callable[..., Any]
    draw_child: Callable[..., Any]
    prepare: Callable[..., Any]
    n_exact_levels: Callable[..., Any]
    prepare_unseen: Callable[..., Any]
    draw_chain: Callable[..., Any]
    log_likelihood: Callable[..., Any]
    log_likelihoods: Callable[..., Any]
    add_statistics: Callable[..., Any]
    log_likelihood_of_sums: Callable[..., Any]
    log_prior: Callable[..., Any]
    log_transition: Callable[..., Any]
    estimate: Callable[..., Any]
    log_evidence: Callable[..., Any]
    fit_group: Callable[..., Any]
    n_parts: Callable[..., Any]
    adapt: Callable[..., Any]
    update_parameters: Callable[..., Any]
    update_hyperparameters: Callable[..., Any]
    simulate: Callable[..., Any]
    prepare_leaf: Callable[..., Any]
    draw_leaf: Callable[..., Any]
    has_whole_statistics: bool = False
    """Whether statistics are whole numbers, below 2**53 in sum: then sums have no rounding."""
    roughness: Callable[..., Any] | None = None
    """Only of models whose :func:`log_likelihoods` may be asked for float32 as well."""
    has_atoms: bool = False
    """Whether nodes hold measures over atoms, which the state has beside them: then its data are
    :class:`treestick.diffusions.hdp.Observed`, and the functions get ``Drawn``."""


GIVEN, DRAWN = np.int64(0), np.int64(1)
"""Whether :func:`fit_group` draws. NumPy's numbers, because Numba would compile a function anew for
each constant of Python's that it is called with."""


EVERY_LEVEL = 2**31
"""What :func:`n_exact_levels` returns where any number of levels has a closed form."""


class Group(NamedTuple):
    """Some nodes of a tree, parents before children, and what is around them."""

    over: Any
    """Of each node: which of the group is its parent; NULL if none is."""
    above: Any
    """Of each node without a parent in the group: the parent's parameters."""
    has_root: bool
    """Whether the first node is the root, which has no parent."""
    n_here: Any
    statistics: Any
    below: Any
    """Parameters of all children that are not in the group, those of one node together."""
    last_below: Any
    """Of each node: before which row of ``below`` its children end, and those of the next begin."""
    theta: Any


_models: dict[type, NodeModel] = {}


def register(model: NodeModel) -> None:
    """Make a model known to the moves.

    Numba tells named tuples apart by the name of their class alone when it looks for compiled code.
    So a class whose name another one has (a model of the user, a notebook's cell that ran twice)
    gets a number behind its name. A class has one set of functions for good, for what is compiled
    stays compiled: to change them, define the class again.
    """
    if _models.get(model.parameters, model) != model:
        raise ValueError(
            f"{model.parameters.__name__} is registered with other functions; define the class anew"
        )
    name = model.parameters.__name__
    taken = {other.__name__ for other in _models if other is not model.parameters}
    count = 2
    while model.parameters.__name__ in taken:
        model.parameters.__name__ = f"{name}_{count}"
        count += 1
    _models[model.parameters] = model


def partial_model(name: str, parameters: type, **functions: Callable[..., Any]) -> NodeModel:
    """Return a model that has some of the functions only, for moves that need no others."""

    def is_missing(*_: Any) -> Any:
        raise NotImplementedError(f"the model {name!r} does not have this function")

    required = [field for field in NodeModel._fields if field not in NodeModel._field_defaults]
    found: dict[str, Any] = {field: functions.get(field, is_missing) for field in required[2:]}
    return NodeModel(name, parameters, **found)


def registered(parameters: type) -> NodeModel:
    """Return the model whose hyperparameters are of this class."""
    return _models[parameters]


def registered_types() -> tuple[type, ...]:
    """Return the classes of hyperparameters of all models that are known."""
    return tuple(_models)


_stands_for_the_models = standing_for(_models)


@_stands_for_the_models
def widths(model: Any) -> tuple[int, int, int]:
    """Return how many floats ``theta``, ``prepared`` and ``statistics`` take for a node."""


@_stands_for_the_models
def draw_hyperparameters(stream: Any, model: Any) -> Any:
    """Return the model with its inferred hyperparameters drawn from their prior."""


@_stands_for_the_models
def draw_root(stream: Any, model: Any, theta: Any) -> None:
    """Write a draw from the root's prior into ``theta``."""


@_stands_for_the_models
def draw_child(stream: Any, model: Any, parent: Any, theta: Any) -> None:
    """Write a draw from T(. <- parent) into ``theta``, which is another array than ``parent``."""


@_stands_for_the_models
def prepare(model: Any, theta: Any, prepared: Any) -> None:
    """Write what :func:`log_likelihood` needs of a node into ``prepared``."""


@_stands_for_the_models
def n_exact_levels(model: Any) -> int:
    """Return how many levels below a node the next two functions can go; at least 1.

    ``EVERY_LEVEL`` if there is no limit. It is a function of the model's class alone.
    """


@_stands_for_the_models
def prepare_unseen(model: Any, theta: Any, levels: int, prepared: Any) -> None:
    """Write what :func:`log_likelihood` needs of an unseen node ``levels`` below ``theta``.

    The likelihood is then that of a datum with the parameters of the unseen node, and of those on
    the way to it, integrated out. ``levels`` is at most :func:`n_exact_levels`.
    """


@_stands_for_the_models
def draw_chain(stream: Any, model: Any, data: Any, n: int, above: Any, thetas: Any) -> None:
    """Write parameters of a chain of nodes below ``above``, each the child of the one before.

    They are drawn given that datum ``n`` is at the last of them, exactly: the likelihood with them
    integrated out is that of :func:`prepare_unseen`. There are at most :func:`n_exact_levels`.
    """


@_stands_for_the_models
def log_likelihood(model: Any, data: Any, n: int, prepared: Any) -> float:
    """Return the log likelihood of datum ``n`` at a node, constants included."""


@_stands_for_the_models
def log_likelihoods(model: Any, data: Any, first: int, last: int, prepared: Any, out: Any) -> None:
    """Write log likelihoods of data at :data:`treestick.wide.ABREAST` nodes, a row for each datum.

    The data are those from ``first`` to before ``last``. Column k of ``prepared`` is what
    :func:`prepare` writes for node k: with nodes side by side, the processor computes several at
    once. A number may differ in its last bits from that of :func:`log_likelihood`, but not from
    call to call, whatever data it is asked for with. Models that have :func:`roughness` also take
    ``prepared`` and ``out`` in float32, with :data:`treestick.wide.ROUGHLY_ABREAST` nodes.
    """


@_stands_for_the_models
def roughness(model: Any, theta: Any, prepared: Any) -> float:
    """Return how far :func:`log_likelihoods` in float32 can be from the truth at a node.

    That is a bound for any datum, with one more rounding of the result. ``prepared`` is in float64.
    """


@_stands_for_the_models
def add_statistics(model: Any, data: Any, n: int, statistics: Any) -> None:
    """Add datum ``n`` to the sufficient statistics of its node."""


@_stands_for_the_models
def log_likelihood_of_sums(model: Any, theta: Any, n_here: float, statistics: Any) -> float:
    """Return the log likelihood of all data of a node, from their statistics."""


@_stands_for_the_models
def log_prior(model: Any, table: Any, theta: Any) -> float:
    """Return the log prior density of the parameters of all rows of the table."""


@_stands_for_the_models
def log_transition(model: Any, above: Any, theta: Any) -> float:
    """Return log T(theta <- above), constants included.

    Here and below, an ``above`` of size 0 stands for no parent: the node is the root, and T is its
    prior.
    """


@_stands_for_the_models
def estimate(
    model: Any, above: Any, below: Any, n_here: float, statistics: Any, theta: Any
) -> None:
    """Write a quick estimate of a node's parameters, about their mode, into ``theta``.

    It is given the parameters of the node's parent and of its children (``below``, one row each),
    and the number and statistics of its data, which may be weighted sums. Nothing is drawn.
    """


@_stands_for_the_models
def log_evidence(model: Any, above: Any, below: Any, n_here: float, statistics: Any) -> float:
    """Return about the log marginal likelihood of what a node has, its parameters integrated out.

    Arguments are those of :func:`estimate`. That is, constants included, the log of

        INT T(theta <- above) f(data | theta) prod over children of T(child <- theta) dtheta.

    It leads proposals only, so it need not be exact. Nothing is drawn.
    """


@_stands_for_the_models
def fit_group(stream: Any, model: Any, group: Group, is_drawn: np.int64) -> float:
    """Draw the parameters of a group of nodes from a proposal q; return the log weight.

    q is near their conditional given all else. The weight is, constants included,

        sum over the group of log T(theta <- its parent's) + log f(data | theta)
            + sum over all children outside of log T(child <- theta)  - log q(thetas).

    If ``is_drawn`` (``DRAWN`` rather than ``GIVEN``), ``group.theta`` is overwritten by the draw;
    else it stays, nothing is drawn, and the weight is the one that it would have had as a draw. q
    is a function of the rest of the group alone.

    If q is the conditional itself, the weight is the marginal likelihood, whatever ``theta`` is. In
    any case the mean of exp(weight) under q is that, and any q keeps moves exact that count the
    weight; its spread costs acceptance.
    """


@_stands_for_the_models
def n_parts(model: Any) -> int:
    """Return into how many parts ``theta`` falls that are independent given everything else.

    It is a function of the model alone: draws must not depend on the number of threads.
    """


@_stands_for_the_models
def update_parameters(
    key: Any, model: Any, table: Any, statistics: Any, theta: Any, part: int, adapting: bool
) -> tuple[int, int]:
    """Overwrite one part of ``theta``, all rows, by a move that leaves its conditional invariant.

    Parts are updated at once by several threads, each with randomness of its own
    (:func:`treestick.random.key_of_part`). Return how many proposals were accepted, of how many.
    """


@_stands_for_the_models
def adapt(model: Any, acceptance: float) -> Any:
    """Return the model with step sizes changed after this share of proposals was accepted."""


@_stands_for_the_models
def update_hyperparameters(key: Any, model: Any, table: Any, statistics: Any, theta: Any) -> Any:
    """Return the model with its inferred hyperparameters moved, given the data.

    ``theta`` may be overwritten too, all rows: hyperparameters that ``theta`` holds back are moved
    with it integrated out, and it is drawn anew. Together they keep their law given all else.
    """


@_stands_for_the_models
def simulate(stream: Any, model: Any, theta: Any, data: Any, n: int) -> None:
    """Write a draw from the likelihood at ``theta`` into datum ``n`` of ``data``."""


@_stands_for_the_models
def prepare_leaf(
    model: Any, above: Any, n_here: float, statistics: Any, theta: Any, prepared: Any
) -> None:
    """Write what :func:`log_likelihood` needs of a node without children, to have one datum more.

    The likelihood is then that of one new datum with the node's parameters integrated out, given
    its parent's and its data. ``theta`` serves where that has no closed form, and is not looked at
    where it has. For predictions it is a draw: on average over draws it is the same, but there is
    noise in each, and the more the fewer data the node has. For moves it is an estimate, and what
    comes of it leads proposals only.
    """


@_stands_for_the_models
def draw_leaf(
    stream: Any, model: Any, above: Any, n_here: float, statistics: Any, theta: Any
) -> None:
    """Overwrite ``theta`` so that one datum of :func:`simulate` has the law of the above."""
