"""Builder of an ONNX graph: operators are called like functions, arrays become constants."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper


class Graph:
    """Nodes and constants of an ONNX graph. Values are referred to by name.

    Examples
    --------
    >>> import numpy as np
    >>> from openset.export._graph import Graph
    >>> graph = Graph()
    >>> graph("Exp", graph("Sub", "X", np.array([1.0, 2.0])))
    'Exp_1'
    """

    def __init__(self):
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def __call__(self, operator: str, *inputs, output: str | None = None, **attributes) -> str:
        """Apply a standard operator with its attributes; return the name of the (first) result.

        A string among the inputs is the name of a value; anything else becomes a constant.
        """
        names = [value if isinstance(value, str) else self._constant(value) for value in inputs]
        output = output or f"{operator}_{len(self.nodes)}"
        # TopK has a second result, which is not used.
        outputs = [output, f"{output}_index"] if operator == "TopK" else [output]
        self.nodes.append(helper.make_node(operator, names, outputs, **attributes))
        return output

    def _constant(self, value) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.ascontiguousarray(value)
        if array.dtype.kind == "U":  # as ONNX has strings: of no fixed width
            array = array.astype(object)
        self.constants.append(numpy_helper.from_array(array, name))
        return name
