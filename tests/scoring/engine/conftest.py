"""What the tests of the engine share."""

import pytest
import torch


@pytest.fixture
def failing(monkeypatch):
    """Lets a method raise where its number of calls and its arguments say so; gives the sizes that it was asked for."""

    def failing(owner, name, condition, error=None):
        asked, real = [], getattr(owner, name)

        def limited(*given, **options):
            asked.append(len(given[0]))
            if condition(len(asked), *given):
                raise error or torch.OutOfMemoryError("CUDA out of memory")
            return real(*given, **options)

        monkeypatch.setattr(owner, name, staticmethod(limited) if isinstance(owner, type) else limited)
        return asked

    return failing
