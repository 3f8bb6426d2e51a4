"""What all tree estimators share: fitting, the posterior sample, prediction."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from treestick import contract
from treestick._jit import deferred_interrupts
from treestick.analysis import components
from treestick.analysis.convergence import disagreements
from treestick.chain import SCHEDULES, run_chain
from treestick.engine.threads import count_jobs
from treestick.estimators.configuration import fingerprint
from treestick.estimators.draws import Draws, Mixture, inferred, to_record
from treestick.estimators.idata import AGREE_ON, of_trees, stacked
from treestick.estimators.sampled import Job, Known, SampledEstimator, Step, ids_of
from treestick.estimators.states import STORED_TYPES, Constants, check_constants, check_state
from treestick.inputs import (
    InvalidValue,
    check_hyperparameter,
    check_whole_number,
    data_errors,
    shown,
)
from treestick.moves.shards import Shards
from treestick.moves.state import Floats, Integers, State, Sticks
from treestick.moves.tasks import Run
from treestick.prior.parameters import MOST_DATA
from treestick.random import Key, make_key
from treestick.start import check_start, first_state
from treestick.store import RunFolder, Trace

if TYPE_CHECKING:
    import xarray

ROWS_AT_ONCE = 4096
MOST_ALPHA0 = 1e6
"""Beyond, differences of log-gamma functions lose the digits that decide."""
MOST_GAMMA = 1e4
"""About so many sticks are broken to find one child; beyond, sweeps take minutes."""


class TreeEstimator(DensityMixin, SampledEstimator):  # type: ignore[misc]
    """Base of the estimators. A subclass knows its model and its data."""

    if TYPE_CHECKING:  # set by the constructors of subclasses, as scikit-learn wants it
        alpha0: Any
        decay: Any
        gamma: Any
        init: Any
        schedule: str
    _can_be_elsewhere = False
    """Whether data can be in shards: then summaries can be joined."""
    _bits_per_cell = 64
    """About, of the data of the compiled model."""
    _compiling = "compiling for this model, some two minutes; later runs need not ..."

    # -- what a subclass provides ------------------------------------------------------------------

    def _read(self, X: Any) -> Any:
        """Return X in the form that the model's own encoding starts from, or raise."""
        raise NotImplementedError

    def _make_model(self, summary: Any) -> tuple[Any, Any]:
        """Return the named tuple of the model for data of which this is known, and its units.

        Units are what the functions below need to know of these data.
        """
        raise NotImplementedError

    def _summarize(self, values: Any, n_data: int | None = None) -> Any:
        """Return what the model is made from: what ``_read`` gave, unless a subclass needs less.

        If ``n_data`` is given, ``values`` are a shard of so many rows.
        """
        return values

    @staticmethod
    def _join_summaries(one: Any, other: Any) -> Any:
        """Return the summary of all rows of two shards, or of several, over the binary tree."""
        raise NotImplementedError

    def _summary_of_columns(self, n_columns: int) -> Any:
        """Return the summary of any rows with so many columns; None if it depends on the rows."""
        return None

    @staticmethod
    def _encode(units: Any, values: Any) -> tuple[Any, int]:
        """Return the data of the compiled model, and their number."""
        raise NotImplementedError

    @staticmethod
    def _make_room(units: Any, n: int, rng: np.random.RandomState) -> Any:
        """Return data of the compiled model with room for ``n`` rows that are to be drawn."""
        raise NotImplementedError

    @staticmethod
    def _decode(units: Any, data: Any) -> Any:
        """Return rows as the user knows them."""
        raise NotImplementedError

    @staticmethod
    def _describe_nodes(units: Any, theta: Floats) -> Mapping[str, npt.ArrayLike]:
        """Return the parameters of the nodes as the user knows them."""
        raise NotImplementedError

    def _as_seen_by(self, mixture: Mixture, data: Any) -> Any:
        """Return new data in the form that likelihoods under one draw need."""
        return data

    def _complete(self, key: Key, mixture: Mixture, data: Any, rows: Integers) -> None:
        """Finish rows that were drawn from one draw's mixture."""

    def _atom_width(self) -> int:
        """Return how many numbers an atom takes; 0 where nodes share none."""
        return 0

    def _described(self) -> list[str]:
        """Return the hyperparameters of the model that the user sees."""
        return inferred(self._model)

    def _describe_hyperparameter(self, name: str, values: Floats) -> Floats:
        """Return a hyperparameter of the model in the user's units."""
        raise NotImplementedError

    def _known_of(self, X: Any) -> Known:
        """Return what is known of the data beside their values."""
        return Known(X, None, ids_of(X), {})

    def _first_latent(
        self, seed: int, chain: int, model: Any, data: Any, run: Run, note: Callable[[str], None]
    ) -> Any:
        """Return what the model adds to the first state of a chain, if that is made before it.

        Where that takes time, ``note`` shows a few words on how far it is.
        """
        return None

    def _check_elsewhere(self) -> None:
        """Raise if data cannot be in shards with these parameters."""

    def _first_latent_elsewhere(
        self,
        seed: int,
        chain: int,
        where: Shards,
        note: Callable[[str], None],
        keep: Callable[[int, Any], None],
    ) -> Any:
        """Do the same where data are in shards.

        ``keep`` gets a number and what the model adds by then; it has the shards write their part.
        """
        return None

    def _more_moves(self) -> dict[str, Any]:
        """Return what :func:`treestick.chain.run_chain` is told beside the schedule."""
        return {}

    # -- fitting -----------------------------------------------------------------------------------

    def _prepare(self, X: Any) -> Job:
        with data_errors():
            values = self._read(X)
        burn_in = self._lengths().burn_in
        sticks = self._sticks_prior()
        model, units = self._make_model(self._summarize(values))
        data, n_data = self._encode(units, values)
        start = check_start(self.init, n_data)
        more = self._more_moves()

        def steps(
            seed: int,
            chain: int,
            run: Run,
            saved: tuple[int, State] | None,
            note: Callable[[str], None],
        ) -> Iterator[Step]:
            if saved is None:
                after = 0
                latent = self._first_latent(seed, chain, model, data, run, note)
                state = first_state(make_key(seed, chain), model, sticks, data, start, latent)
            else:
                after, state = saved
                check_state(state, model, data, n_data)
            for swept in run_chain(
                seed, chain, state, data, burn_in, run, self.schedule, after, **more
            ):
                yield Step(
                    swept.sweep,
                    swept.scores.complete_data,
                    swept.state.n_nodes,
                    partial(to_record, chain, swept),
                    swept.state,
                )

        constants = Constants(model, units, sticks)
        return Job(self._known_of(X), partial(fingerprint, data), n_data, constants, steps)

    def _prepare_elsewhere(self, X: Any, run: RunFolder) -> Job:
        from treestick.estimators import elsewhere  # Dask is loaded when it is used

        return elsewhere.prepare(self, X, run)

    def _sticks_prior(self) -> Sticks:
        """Check schedule and hyperparameters of the tree."""
        if self.schedule not in SCHEDULES:
            raise InvalidValue(f"schedule={shown(self.schedule)} is not one of {SCHEDULES}")
        return Sticks(
            *check_hyperparameter("alpha0", self.alpha0, most=MOST_ALPHA0),
            *check_hyperparameter("decay", self.decay, most=1.0),
            *check_hyperparameter("gamma", self.gamma, most=MOST_GAMMA),
        )

    @classmethod
    def _types(cls) -> tuple[type, ...]:
        return (*STORED_TYPES, *contract.registered_types(), *cls._stored_types)

    def _check_constants(self, constants: Any) -> None:
        check_constants(constants, self.n_features_in_)

    def _take(self, run: RunFolder, traces: list[Trace], constants: Constants) -> None:
        self._model, self._units, self._sticks = constants
        self._store, self._traces = run, traces
        self.n_iter_ = max(int(trace.sweep[-1]) for trace in traces)
        self._finish()

    def _finish(self) -> None:
        """Set the fitted attributes from the draws."""
        describe = partial(self._describe_nodes, self._units)
        self.draws_ = Draws(self._store, self._model, self._sticks, describe, self._atom_width())
        best = int(np.argmax(self._every("complete_data")))
        self._best = best
        self.tree_ = self.draws_[best]
        self.labels_ = np.array(self.tree_.assignments, dtype=np.int64)
        for name in ("alpha0", "decay", "gamma"):
            setattr(self, f"{name}_", float(np.mean(self._every(name))))
        for name in self._described():
            mean = self._describe_hyperparameter(name, self._every(name)).mean(axis=0)
            setattr(self, f"{name}_", float(mean) if mean.ndim == 0 else mean)

    def _warn_of_disagreement(self) -> None:
        if len(self._traces) < 2:
            return
        found = disagreements({name: stacked(self._traces, name) for name in AGREE_ON})
        if found:
            listed = ", ".join(f"{name} {rhat:.2f}" for name, rhat in found.items())
            warnings.warn(
                f"the chains disagree (R-hat: {listed}; 1 is agreement): each has found trees of "
                "its own, and averages over draws mix them. Run longer, or look at each chain.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _every(self, name: str) -> Floats:
        """Return a scalar or vector of all draws, one chain after the other."""
        return np.concatenate([trace.values[name] for trace in self._traces])

    @property
    def idata_(self) -> xarray.DataTree:
        """The scalars of all draws as ArviZ has them, in groups ``posterior`` and ``sample_stats``.

        Beside what each draw has, ``sample_stats`` holds ``visits``, how many draws of each chain
        have a tree of so many nodes, and ``ess_per_second``, effective draws of all chains together
        per second from the first draw of any chain to the last of all. Times are the only numbers
        in it that are not the same in each run. Chains that an interrupt has left with different
        numbers of draws are cut to the shortest.
        """
        check_is_fitted(self, "draws_")
        described = {}
        for name in self._described():
            values = stacked(self._traces, name)
            found = self._describe_hyperparameter(name, values.reshape(-1, *values.shape[2:]))
            described[name] = found.reshape(*values.shape[:2], *found.shape[1:])
        features = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        return of_trees(self._traces, described, features, self.thin)

    # -- prediction --------------------------------------------------------------------------------

    def fit_predict(self, X: Any, y: object = None) -> npt.NDArray[np.int64]:
        """Fit, and return ``labels_``: the node of each datum in ``tree_``."""
        return self.fit(X).labels_

    def predict(self, X: Any) -> npt.NDArray[np.int64]:
        """Return for each row the node of ``tree_`` that it most probably belongs to.

        A new node is not among them; its probability is the last column of :meth:`predict_proba`.
        """
        return np.asarray(np.argmax(self.predict_proba(X)[:, :-1], axis=1))

    def predict_proba(self, X: Any) -> Floats:
        """Return the posterior over the nodes of ``tree_``, and a last column for a new node.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_nodes + 1)
            Rows sum to one.
        """
        data, n_rows = self._new_data(X)
        mixture = self.draws_.mixture(self._best)
        n_nodes = mixture.theta.shape[0]
        data = self._as_seen_by(mixture, data)
        result = np.empty((n_rows, n_nodes + 1))

        def some(made: components.Components, start: int) -> None:
            rows = result[start : start + ROWS_AT_ONCE]
            components.posterior_nodes(mixture.model, data, made, n_nodes, start, rows)

        self._for_rows(some, self._best, mixture, n_rows)
        return result

    def score_samples(self, X: Any) -> Floats:
        """Return the log posterior predictive density of each row, averaged over all draws.

        Every draw is a mixture over its nodes, weighed by the urn, and over the unseen subtrees
        below them, whose parameters are integrated out (what lies more than a hundred levels below
        a node counts as the hundredth), as are those of nodes without children. Where that has no
        closed form, parameters of unseen nodes are drawn, the same for all rows, on four levels at
        most: what lies deeper counts as the last of them. Constants are included, so densities of
        different models of the same data compare.
        """
        data, n_rows = self._new_data(X)
        total, out = np.full(n_rows, -np.inf), np.empty(n_rows)
        for position in range(len(self.draws_)):
            mixture = self.draws_.mixture(position)
            seen = self._as_seen_by(mixture, data)
            work = partial(_log_densities, mixture.model, seen, out)
            self._for_rows(work, position, mixture, n_rows)
            total = np.logaddexp(total, out)
        return np.asarray(total - np.log(len(self.draws_)))

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean of :meth:`score_samples` over the rows: nats per datum."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Draw rows from the posterior predictive.

        Each comes from a posterior draw chosen at random, and may come from a node that no datum
        has visited.

        Parameters
        ----------
        n_samples : int
            How many rows.
        random_state : int, RandomState or None
            As everywhere in scikit-learn.
        """
        check_is_fitted(self, "draws_")
        n_samples = check_whole_number("n_samples", n_samples, 1, MOST_DATA)
        rng = check_random_state(random_state)
        key = make_key(int(rng.randint(2**31 - 1)))
        chosen = rng.randint(len(self.draws_), size=n_samples)
        data = self._make_room(self._units, n_samples, rng)
        for position in np.unique(chosen):
            mixture = self.draws_.mixture(int(position))
            table, theta, statistics, model, sticks, _ = mixture
            rows = np.flatnonzero(chosen == position)
            for n in rows:
                with deferred_interrupts():
                    components.draw_predictive(
                        key, model, table, theta, statistics, sticks, data, int(n)
                    )
            self._complete(key, mixture, data, rows)
        return self._decode(self._units, data)

    def _new_data(self, X: Any) -> tuple[Any, int]:
        check_is_fitted(self, "draws_")
        values = self._read(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return self._encode(self._units, values)

    def _for_rows(
        self,
        work: Callable[[components.Components, int], None],
        position: int,
        mixture: Mixture,
        n_rows: int,
    ) -> None:
        """Call ``work`` with the first of every few rows, on several threads.

        ``position`` is that of the draw; what has to be drawn for its mixture is a function of it.
        """
        starts = range(0, n_rows, ROWS_AT_ONCE)
        table, theta, statistics, model, sticks, _ = mixture
        with deferred_interrupts():
            key = make_key(0, chain=position)
            made = components.make_components(key, model, table, theta, statistics, sticks)
            if len(starts) == 1:
                work(made, 0)
                return
        with ThreadPoolExecutor(count_jobs(self.n_jobs)) as pool:
            for _ in pool.map(partial(work, made), starts):
                pass


def _log_densities(
    model: Any, data: Any, out: Floats, made: components.Components, start: int
) -> None:
    components.log_densities(model, data, made, start, out[start : start + ROWS_AT_ONCE])
