from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.data.cleaning import DigestSet

BIG = 2**64 - 1


@given(
    st.lists(
        st.lists(
            st.sampled_from([0, 1, 2, 3, 7, 2**63, BIG - 1, BIG]) | st.integers(0, BIG), max_size=9
        )
    )
)
def test_it_agrees_with_a_set(chunks):
    found, seen = DigestSet(), set()
    for chunk in chunks:
        expected = []
        for digest in chunk:
            expected.append(digest not in seen)
            seen.add(digest)
        assert found.add(np.array(chunk, np.uint64)).tolist() == expected
        assert len(found) == len(seen)


def test_there_are_few_runs_of_many_digests():
    generator = np.random.default_rng(1)
    found = DigestSet()
    for _ in range(500):
        found.add(generator.integers(0, BIG, size=100, dtype=np.uint64))
    assert len(found) == 50_000
    assert len(found._runs) <= 10
    assert sum(run.nbytes for run in found._runs) == 8 * len(found)
