"""Writes cross_entropy.json and cross_entropy_backward.json: what torch's cross_entropy, logsumexp and autograd give in
float64.

    python tests/oracles/cross_entropy.py
"""

import pathlib

import torch
from geglu import inputs, output, tensor, write

if __name__ == "__main__":
    forward, backward = [], []
    for number, (ignore, smoothing, factor) in enumerate(((-100, 0.0, 1.0), (-100, 0.125, 1.0), (3, 0.5, 4.0), (-1, 1.0, 16.0))):
        logits = inputs(5, 17, 90 + number) * factor
        targets = torch.tensor([0, 16, ignore, 3, 7])
        values = {"ignore_index": ignore, "label_smoothing": smoothing}
        leaf = logits.double().requires_grad_()
        loss = torch.nn.functional.cross_entropy(leaf, targets, ignore_index=ignore, label_smoothing=smoothing, reduction="none")
        lse = torch.logsumexp(leaf, -1)
        named = {"logits": tensor(logits), "targets": {"dtype": "i64", "shape": [5], "data": targets.tolist()}}
        forward.append(
            {
                "values": values,
                "tensors": named,
                "outputs": {"loss": output(loss.detach()[:, None]), "lse": output(lse.detach()[:, None])},
            }
        )
        # Logits of which every lse is next to 0, where f32 holds it as well as float64: the gradient starts from it.
        shifted = (logits.double() - lse[:, None]).detach().float()
        leaf = shifted.double().requires_grad_()
        loss = torch.nn.functional.cross_entropy(leaf, targets, ignore_index=ignore, label_smoothing=smoothing, reduction="none")
        dloss = torch.randn(5, generator=torch.Generator().manual_seed(70 + number))
        loss.backward(dloss.double())
        exact = torch.logsumexp(leaf.detach(), -1)
        backward.append(
            {
                "values": values,
                "tensors": {
                    "logits": tensor(shifted),
                    "targets": named["targets"],
                    "lse": {"dtype": "f32", "shape": [5], "data": exact.float().double().tolist()},
                    "dloss": tensor(dloss),
                },
                "outputs": {"dlogits": output(leaf.grad)},
            }
        )
    folder = pathlib.Path(__file__)
    write(__file__, "cross_entropy", f"torch {torch.__version__} cross_entropy and logsumexp", forward)
    write(
        folder.with_name("cross_entropy_backward.py"), "cross_entropy_backward", f"torch {torch.__version__} autograd of cross_entropy", backward
    )
