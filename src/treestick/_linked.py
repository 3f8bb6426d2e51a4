"""Functions as compiled code calls them: optimised and translated only as parts of their callers.

Numba makes of every function a library: with a wrapper, so that Python can call it, optimised, and
translated to machine code. It links that into the library of each caller, where all is optimised
and translated again, and so on up to the function that Python calls. Most functions are called by
compiled code alone. So there are two of each here, compiled when they are called:

* an :class:`Entry`, which Python calls. It is what Numba would make of the function.
* a :class:`Linked`, which compiled code calls. It is translated to LLVM's language, and no further.

What a function computes is the same, bit for bit: the order of operations is kept as written.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.registry import CPUDispatcher


class LinkedLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that waits to be linked into other code."""

    def _optimize_final_module(self) -> None:
        """Leave it as it is."""

    def _finalize_final_module(self) -> None:
        """Say that it can be linked now."""
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> bytes:
        """Return all there is, which is no object code."""
        return self._get_module_for_linking().as_bitcode()  # type: ignore[no-any-return]

    @classmethod
    def restored(cls, codegen: Any, bitcode: bytes) -> "LinkedLibrary":
        """Return a library of what :meth:`serialize_using_object_code` returned."""
        library = cls(codegen, "restored")
        library._final_module = library._shared_module = binding.parse_bitcode(bitcode)
        library._finalized = True
        return library


class LinkedCompiler(Compiler):  # type: ignore[misc]
    """Numba's compiler, which stops before there is anything to execute."""

    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        arguments, returned, flags, local = others
        flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
        library = LinkedLibrary(target.codegen(), "linked")
        super().__init__(typing, target, library, arguments, returned, flags, local)


class Linked(CPUDispatcher):  # type: ignore[misc]
    """A function that compiled code calls."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {}, options, LinkedCompiler)

    def add_overload(self, result: Any) -> None:
        """Make a compiled signature known to compiled code, by its library as a name."""
        result = result._replace(entry_point=result.library)
        self.targetctx.insert_user_function(result.library, result.fndesc, [result.library])
        self.overloads[tuple(result.signature.args)] = result

    @staticmethod
    def rebuild(target: Any, reduced: tuple[Any, ...]) -> CompileResult:
        """Return the compiled signature of which ``reduced`` is what was saved."""
        bitcode, fndesc, environment, signature, _, _, annotation, reload_init, others = reduced
        for function in reload_init:
            function()
        return CompileResult(
            target_context=target,
            typing_context=target.typing_context,
            library=LinkedLibrary.restored(target.codegen(), bitcode),
            environment=environment,
            entry_point=None,
            fndesc=fndesc,
            type_annotation=annotation,
            signature=signature,
            objectmode=False,
            lifted=(),
            typing_error=None,
            call_helper=None,
            metadata=None,
            reload_init=reload_init,
            referenced_envs=others,
        )


class Entry(CPUDispatcher):  # type: ignore[misc]
    """A function that Python calls, and stands for the linked one where compiled code calls it."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        super().__init__(function, {}, options)
        self.linked = Linked(function, options)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what compiled code calls, as far as types go."""
        return self.linked.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the name of what compiled code calls."""
        return self.linked.get_overload(sig)

    def add_overload(self, result: Any) -> None:
        """Make a compiled signature known to Python."""
        # Each function has an object for constants; the linked ones get theirs only now.
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)
        super().add_overload(result)

    @staticmethod
    def rebuild(target: Any, reduced: tuple[Any, ...]) -> CompileResult:
        """Return the compiled signature of which ``reduced`` is what was saved."""
        return CompileResult._rebuild(target, *reduced)
