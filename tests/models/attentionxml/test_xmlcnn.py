"""XML-CNN, by hand."""

from __future__ import annotations

import torch

from ontodex.models.attentionxml.xmlcnn import XMLCNN, XMLCNNConfig, pool_chunks


def test_chunks_by_hand():
    x = torch.tensor([[1.0, 5, 2, 4, 3, 9], [7.0, 6, 9, 9, 9, 9]])[:, :, None]
    pooled = pool_chunks(x, torch.tensor([5, 2]), 4)[:, :, 0]
    # Five places in four chunks: place p falls into chunk 4 p // 5, so {0, 1}, {2}, {3}, {4}.
    assert pooled[0].tolist() == [5, 2, 4, 3]
    # Two places in four chunks leave two chunks empty.
    assert pooled[1].tolist() == [7, 0, 6, 0]


def test_one_chunk_is_plain_max_pooling():
    x = torch.rand(3, 6, 2)
    torch.testing.assert_close(pool_chunks(x, torch.tensor([6, 6, 6]), 1)[:, 0], x.amax(dim=1))


def test_a_convolution_reads_only_whole_windows_of_real_words():
    network = XMLCNN(
        XMLCNNConfig(width=5, maps=4, windows=(2,), chunks=1), 20, torch.zeros(3), None
    )
    tokens = torch.tensor([[3, 7, 2, 0, 0]])
    x = network.words.eval()(tokens)
    pooled = network.pool(network.convolve[0], x, torch.tensor([3]))
    weight, bias = network.convolve[0].weight, network.convolve[0].bias
    windows = [torch.einsum("mec,ce->m", weight, x[0, i : i + 2]) + bias for i in (0, 1)]
    torch.testing.assert_close(pooled[0, 0], torch.relu(torch.stack(windows)).amax(dim=0))
