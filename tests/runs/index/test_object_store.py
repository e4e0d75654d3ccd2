"""A data set in an S3-compatible object store."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from index_jobs import finish, has_ended, read_folder, split_input, start
from patience import PATIENCE


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a bucket on a server on this machine."""
    pytest.importorskip("moto", reason="moto is not installed: pip install 'moto[server]' s3fs")
    s3fs = pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    log = tmp_path / "moto.log"  # not a pipe: it logs each request, and a full pipe would stop it
    with log.open("w") as sink:
        server = subprocess.Popen(command, stderr=sink, text=True)
    while not (address := re.search(r"http://\S+:\d+", log.read_text())):
        assert not has_ended(server, 0.05), log.read_text()
    monkeypatch.setenv("AWS_ENDPOINT_URL", address[0])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("trout")
        yield "s3://trout"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=PATIENCE)


@pytest.mark.slow
def test_a_killed_job_in_an_object_store_continues_and_gives_the_same_parts(
    sample, bucket, tmp_path
):
    import s3fs

    run, source = sample
    store = s3fs.S3FileSystem(skip_instance_cache=True)
    folder = split_input(source, tmp_path / "in", 4)
    store.put(str(folder), f"{bucket}/in", recursive=True)
    finish(start(run, folder, tmp_path / "out"))
    job = start(run, f"{bucket}/in", f"{bucket}/out", "--workers", "2")
    while len(store.find(f"{bucket}/out/work", refresh=True)) < 3:
        assert job.poll() is None, job.communicate()[1]
        store.invalidate_cache()
    job.kill()
    job.communicate()
    assert store.find(f"{bucket}/out/ledger", refresh=True) == []
    finish(start(run, f"{bucket}/in/*.gz", f"{bucket}/out", "--merge", f"{bucket}/current.parquet"))
    store.invalidate_cache()
    store.get(f"{bucket}/out", str(tmp_path / "fetched"), recursive=True)
    assert read_folder(tmp_path / "fetched" / "parts") == read_folder(tmp_path / "out" / "parts")
    assert store.exists(f"{bucket}/current.parquet")
    assert not store.exists(f"{bucket}/out/work")
