"""HDPTree: a mixture at every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from treestick import families
from treestick._jit import compiled, deferred_interrupts
from treestick.diffusions.hdp import Drawn, Observed, see_without_atoms
from treestick.estimators import counts
from treestick.estimators.base import TreeEstimator
from treestick.estimators.draws import Mixture
from treestick.estimators.vectors import (
    Moments,
    check_vector,
    join_moments,
    location_and_scale,
    moments_of,
    read_vectors,
)
from treestick.families.gaussian import NormalGamma
from treestick.families.multinomial import SymmetricDirichlet
from treestick.inputs import InvalidValue, check_hyperparameter, check_positive, shown
from treestick.models.hdp import Measures
from treestick.moves.state import Floats, Integers
from treestick.random import Key, Purpose, key_for, open_stream

COMPONENTS = ("gaussian", "multinomial")
MOST_CONCENTRATION = 1e4
"""About so many sticks are broken to find one atom; beyond, sweeps take minutes."""
LEAST = 1e-6
"""Of concentration and persistence: less is nothing but for rounding."""
LEAST_SHAPE = 0.1
"""With less, H has precisions of 0 in floats."""
VARIANCE = 0.05
"""Of a component by default, in units of each feature's variance."""


class VectorUnits(NamedTuple):
    """Coordinates in which every feature has mean 0 and variance 1."""

    offset: Floats
    scale: Floats


class Units(NamedTuple):
    """What is kept of the data that a model was fitted to, and the law of new atoms."""

    form: VectorUnits | counts.CountUnits
    base: Any


class Room(NamedTuple):
    """Data that are to be drawn."""

    values: Any
    atom: Integers


class HDPTree(TreeEstimator):
    """A tree of clusters of any shape: every node is a mixture with any number of components.

    A node has a random measure: a mixture over *atoms*, which are Gaussian or multinomial
    components. Measures go down the tree by the hierarchical Dirichlet process, so a child shares
    atoms with its parent, weighs them differently, and has new ones::

        G[root]  ~ DP(concentration * H)
        G[child] ~ DP(concentration * (persistence * G[parent] + (1 - persistence) * H))
        x        ~ a component drawn from G[node of x]

    H, the law of new components, is for Gaussian ones, in each feature,

        precision ~ Gamma(base_shape, mean 1 / base_variance),
        mean      ~ N(base_mean, variance / base_strength),

    and for multinomial ones Dir(base_concentration, ..., base_concentration).

    A hyperparameter is a number (fixed) or an interval ``(low, high)``: a uniform prior, and it is
    inferred.

    Parameters
    ----------
    component : {"gaussian", "multinomial"}
        For real vectors, or for rows of counts, which may be sparse.
    alpha0, decay, gamma : float or (low, high)
        The prior on trees: ``alpha0 * decay**depth`` says how much goes deeper, ``gamma`` how many
        children a node has.
    concentration : float or (low, high), default (0.1, 20)
        How near the weights of children are to their parents', and how many atoms there are.
    persistence : float or (low, high), above 0 and up to 1, default 0.9
        How much of a child's measure comes from its parent; the rest are new atoms. With 1, all
        atoms are the root's, and down the tree fewer and fewer are left.
    base_shape, base_variance, base_strength, base_mean
        H of Gaussian components. The last three may be arrays with a number for each feature. None
        for ``base_variance`` is 0.05 times each feature's variance, for ``base_mean`` each
        feature's mean, and for ``base_strength`` the number with which means spread as the data.
    base_concentration : float, default 0.5
        H of multinomial components.
    n_draws, burn_in, thin, n_chains, init, schedule, n_jobs, engine, random_state, run_dir, verbose
        As for :class:`GaussianTree`.

    Attributes
    ----------
    tree_ : Tree
        The draw with the highest complete-data likelihood. ``node_params`` holds ``weight`` of the
        atoms at each node, and in a last column that of all other atoms.
    atoms_ : dict
        The atoms of ``tree_``, a row each: ``mean`` and ``variance``, or ``probability``.
    labels_, draws_, idata_, n_iter_
        As for :class:`GaussianTree`.
    alpha0_, decay_, gamma_, concentration_, persistence_ : float
        Posterior means.

    Examples
    --------
    >>> import numpy as np
    >>> from treestick import HDPTree
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2)) + np.repeat([[0, 0], [9, 9]], 50, axis=0)
    >>> model = HDPTree(n_draws=20, burn_in=50, n_chains=1, random_state=0, verbose=0).fit(X)
    >>> model.tree_.node_params["weight"].shape[1] == len(model.atoms_["mean"]) + 1
    True
    """

    _stored_types = (Units, VectorUnits, counts.CountUnits, NormalGamma, SymmetricDirichlet)
    _can_be_elsewhere = True

    def __init__(
        self,
        *,
        component: str = "gaussian",
        alpha0: Any = (1.0, 50.0),
        decay: Any = (0.05, 0.8),
        gamma: Any = (0.5, 10.0),
        concentration: Any = (0.1, 20.0),
        persistence: Any = 0.9,
        base_shape: float = 2.0,
        base_variance: Any = None,
        base_strength: Any = None,
        base_mean: Any = None,
        base_concentration: float = 0.5,
        n_draws: int = 500,
        burn_in: int = 500,
        thin: int = 1,
        n_chains: int = 2,
        init: Any = "root",
        schedule: str = "default",
        n_jobs: int | None = None,
        engine: str = "threads",
        random_state: Any = None,
        run_dir: Any = None,
        verbose: int = 1,
    ) -> None:
        self.component = component
        self.alpha0 = alpha0
        self.decay = decay
        self.gamma = gamma
        self.concentration = concentration
        self.persistence = persistence
        self.base_shape = base_shape
        self.base_variance = base_variance
        self.base_strength = base_strength
        self.base_mean = base_mean
        self.base_concentration = base_concentration
        self.n_draws = n_draws
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.init = init
        self.schedule = schedule
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.run_dir = run_dir
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.component == "multinomial"
        tags.input_tags.positive_only = self.component == "multinomial"
        return tags

    def _read(self, X: Any) -> Any:
        if self.component not in COMPONENTS:
            raise InvalidValue(f"component={shown(self.component)} is not one of {COMPONENTS}")
        name = type(self).__name__
        if self.component == "multinomial":
            return counts.read_rows(X, name)
        return read_vectors(X, name)

    def _summarize(self, values: Any, n_data: int | None = None) -> Moments | counts.CountUnits:
        if isinstance(values, counts.Rows):
            return counts.units_of(values)
        return moments_of(values, n_data)

    @staticmethod
    def _join_summaries(one: Any, other: Any) -> Moments | counts.CountUnits:
        if isinstance(one, counts.CountUnits):
            return counts.join_units(one, other)
        return join_moments(one, other)

    def _make_model(self, summary: Moments | counts.CountUnits) -> tuple[Measures, Units]:
        concentration = check_hyperparameter(
            "concentration", self.concentration, most=MOST_CONCENTRATION
        )
        persistence = check_hyperparameter("persistence", self.persistence, most=1.0)
        for name, (_, low, _) in (("concentration", concentration), ("persistence", persistence)):
            if low < LEAST:
                raise InvalidValue(f"{name}={shown(getattr(self, name))} is below {LEAST:g}")
        if isinstance(summary, counts.CountUnits):
            form: Any = summary
            shape = check_positive("base_concentration", self.base_concentration, 1e6)
            base: Any = SymmetricDirichlet(shape, form.n_outcomes)
        else:
            base, form = self._gaussian_base(summary)
        return Measures(*concentration, *persistence, 0), Units(form, base)

    def _gaussian_base(self, moments: Moments) -> tuple[NormalGamma, VectorUnits]:
        n_features = moments.mean.size
        mean, scale, _ = location_and_scale(moments)
        units = VectorUnits(mean, scale)
        variance, centre = np.full(n_features, VARIANCE), np.zeros(n_features)
        if self.base_variance is not None:
            variance = check_vector("base_variance", self.base_variance, n_features) / scale**2
            _check_between("base_variance", self.base_variance, variance, 1e-10, 1e10)
        if self.base_mean is not None:
            centre = (check_vector("base_mean", self.base_mean, n_features) - mean) / scale
            _check_between("base_mean", self.base_mean, centre, -1e4, 1e4)
        strength = variance.copy()
        if self.base_strength is not None:
            strength = check_vector("base_strength", self.base_strength, n_features)
            _check_between("base_strength", self.base_strength, strength, 1e-10, 1e6)
        shape = check_positive("base_shape", self.base_shape, 1e6)
        if shape < LEAST_SHAPE:
            raise InvalidValue(f"base_shape={shown(self.base_shape)} is below {LEAST_SHAPE:g}")
        base = NormalGamma(centre, strength, shape, shape * variance, float(np.log(scale).sum()))
        return base, units

    @staticmethod
    def _encode(units: Units, values: Any) -> tuple[Observed, int]:
        form = units.form
        if isinstance(form, counts.CountUnits) != isinstance(values, counts.Rows):
            raise InvalidValue("component has been changed since the fit; fit again")
        if isinstance(form, counts.CountUnits):
            encoded, n = counts.encode(values)
            return Observed(encoded, units.base), n
        return Observed((values - form.offset) / form.scale, units.base), values.shape[0]

    @staticmethod
    def _make_room(units: Units, n: int, rng: np.random.RandomState) -> Room:
        if isinstance(units.form, counts.CountUnits):
            return Room(counts.make_room(units.form, n, rng), np.empty(n, dtype=np.int64))
        return Room(np.empty((n, units.form.scale.size)), np.empty(n, dtype=np.int64))

    @staticmethod
    def _decode(units: Units, data: Room) -> Any:
        if isinstance(units.form, counts.CountUnits):
            return counts.decode(units.form, data.values)
        return data.values * units.form.scale + units.form.offset

    def _as_seen_by(self, mixture: Mixture, data: Observed) -> Drawn:
        is_counts = isinstance(self._units.form, counts.CountUnits)
        n = data.values.total.size if is_counts else data.values.shape[0]
        with deferred_interrupts():
            return see_without_atoms(data, n, mixture.atoms)

    def _complete(self, key: Key, mixture: Mixture, data: Room, rows: Integers) -> None:
        with deferred_interrupts():
            _simulate(key, self._units.base, mixture.atoms, data, rows)

    @staticmethod
    def _describe_nodes(units: Any, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        return {"weight": np.exp(theta)}

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        return values

    def _atom_width(self) -> int:
        return int(families.sizes(self._units.base)[0])

    def _finish(self) -> None:
        super()._finish()
        atoms = self.draws_.mixture(self._best).atoms
        form = self._units.form
        if isinstance(form, counts.CountUnits):
            self.atoms_ = {"probability": np.exp(atoms)}
        else:
            n_features = form.scale.size
            self.atoms_ = {
                "mean": atoms[:, :n_features] * form.scale + form.offset,
                "variance": form.scale**2 / atoms[:, n_features : 2 * n_features],
            }


def _check_between(name: str, value: Any, found: Floats, low: float, high: float) -> None:
    """Raise unless all are within bounds, in standard deviations or variances of each feature."""
    for k, number in enumerate(found.tolist()):
        if not low <= number <= high:
            raise InvalidValue(
                f"{name}={shown(value)} is {number:.1g} for feature {k} scaled to mean 0 and "
                f"variance 1; it must be from {low:g} to {high:g}"
            )


@compiled
def _simulate(key: Key, base: Any, atoms: Floats, data: Room, rows: Integers) -> None:
    """Draw values at atoms, or at an atom of their own drawn from H."""
    phi = np.empty(atoms.shape[1])
    for n in rows:
        stream = open_stream(key_for(key, Purpose.ATOM, n))
        if data.atom[n] < atoms.shape[0]:
            phi[:] = atoms[data.atom[n]]
        else:
            families.draw_atom(stream, base, phi)
        families.simulate_at(stream, base, phi, data.values, n)
