"""Object stores on real servers: SeaweedFS, moto, and a front that misbehaves."""

import json
import os
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from chaos.proxy import Proxy
from crawler.errors import ConfigurationError, CrawlerError, NotFound, SinkAway
from crawler.servers import objects
from crawler.servers.objects import ObjectStore
from tests.support.http_server import serving
from tests.support.s3_front import Front, front_of
from tests.support.s3_server import (
    KEY,
    READER_KEY,
    READER_SECRET,
    SECRET,
    S3Server,
    use_server,
)

# Three parts, the last one smaller.
LARGE = os.urandom(objects._PART_BYTES) * 2 + b"end"


@pytest.mark.parametrize("size", [0, 1, 72 * 10**9, 79 * 10**9, 5 * 10**12])
def test_an_upload_has_no_more_parts_than_s3_takes(size: int) -> None:
    assert objects.part_bytes(size) >= objects._PART_BYTES
    assert size / objects.part_bytes(size) <= 9_000


def store_of(url: str) -> ObjectStore:
    return ObjectStore.from_url(url, what="SINKS")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(LARGE)
    return path


@pytest.fixture
async def front(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch
) -> AsyncIterator[Front]:
    async with front_of(s3_server.endpoint) as front:
        use_server(s3_environment, front.endpoint)
        yield front


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


# --- what every store does ------------------------------------------------------------------------


@pytest.fixture(params=["s3", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "file":
        return store_of(f"file://{tmp_path}/a%20b/objects/")
    return store_of(request.getfixturevalue("s3_url"))


async def test_objects_are_written_read_listed_and_deleted(store: ObjectStore) -> None:
    await store.put("web/a%2Fb/ü 1", b"123456")
    await store.put("web/a%2Fb/ü 1", b"12345")
    await store.put("other", b"")
    assert await store.get("web/a%2Fb/ü 1") == b"12345"
    assert await store.get_range("web/a%2Fb/ü 1", 1, 3) == b"234"
    assert await store.size("web/a%2Fb/ü 1") == 5
    assert sorted([each async for each in store.list()]) == [("other", 0), ("web/a%2Fb/ü 1", 5)]
    assert [each async for each in store.list("web")] == [("web/a%2Fb/ü 1", 5)]
    assert [each async for each in store.list("none")] == []
    await store.delete(["other", "none"])
    assert [name async for name, _ in store.list()] == ["web/a%2Fb/ü 1"]


async def test_s3_deletes_many_objects_by_one_request(s3_url: str, front: Front) -> None:
    store, names = store_of(s3_url), ["web/a%2Fb/ü 1", "b", "c"]
    for name in names:
        await store.put(name, b"")
    front.requests.clear()
    await store.delete([*names, "none"])
    assert [method for method, _, _ in front.requests] == ["POST"]
    assert [each async for each in store.list()] == []
    front.answer = (403, "AccessDenied")
    for call in (store.delete(names), store.check_deletion()):
        with pytest.raises(ConfigurationError, match="AccessDenied"):
            await call


async def test_credentials_that_do_not_permit_deletion_pass_the_check(
    s3_url: str, front: Front
) -> None:
    # As S3 refuses single objects of a request.
    key = f"<Key>{s3_url.rpartition('/')[2]}/.crawler-probe</Key>"
    refused = f"<Error>{key}<Code>AccessDenied</Code><Message>no</Message></Error>"
    front.bodies["POST"] = f"<DeleteResult>{refused}</DeleteResult>"
    store = store_of(s3_url)
    await store.check()
    with pytest.raises(ConfigurationError, match="check the credentials"):
        await store.check_deletion()


async def test_a_check_leaves_nothing(store: ObjectStore) -> None:
    await store.check()
    await store.check_deletion()
    assert [each async for each in store.list()] == []


async def test_an_object_that_is_not_there_is_not_found(store: ObjectStore, tmp_path: Path) -> None:
    assert await store.size("none") is None
    with pytest.raises(NotFound, match=f"There is no {store.url}/none"):
        await store.get("none")
    with pytest.raises(NotFound):
        await store.get_range("none", 0, 1)
    with pytest.raises(NotFound):
        await store.download("none", tmp_path / "none")
    assert not (tmp_path / "none").exists()


async def test_a_file_of_several_parts_is_uploaded_and_downloaded(
    store: ObjectStore, large: Path, tmp_path: Path
) -> None:
    await store.upload("large", large)
    await store.download("large", tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == LARGE
    assert await store.get_range("large", len(LARGE) - 3, 3) == b"end"


async def test_names_that_lead_elsewhere_are_refused(store: ObjectStore) -> None:
    for name in ("../x", "a//b", "a/./b"):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            await store.put(name, b"")


# --- what is sent ---------------------------------------------------------------------------------


async def test_parts_have_checksums_and_the_storage_class_is_sent(
    front: Front, s3_url: str, large: Path
) -> None:
    store = store_of(s3_url)
    await store.put("small", b"small", storage_class="STANDARD_IA")
    await store.upload("large", large, storage_class="STANDARD_IA")
    small, *parts = front.headers("PUT")
    assert small["x-amz-storage-class"] == "STANDARD_IA"
    assert len(parts) == 3
    size = objects._PART_BYTES
    cut = [b"small", LARGE[:size], LARGE[size : 2 * size], LARGE[2 * size :]]
    expected = {b64encode(sha256(part).digest()).decode() for part in cut}
    assert {headers["x-amz-checksum-sha256"] for headers in front.headers("PUT")} == expected
    begin = front.headers("POST")[0]
    assert begin["x-amz-checksum-algorithm"] == "SHA256"
    assert begin["x-amz-storage-class"] == "STANDARD_IA"


async def test_what_is_damaged_on_its_way_is_not_stored(
    front: Front, s3_url: str, large: Path
) -> None:
    store = store_of(s3_url)
    front.damages = True
    with pytest.raises(CrawlerError):
        await store.put("small", b"small")
    with pytest.raises(CrawlerError):
        await store.upload("large", large)
    front.damages = False
    assert [each async for each in store.list()] == []


async def test_moto_takes_checksums_and_the_storage_class_and_has_no_other_buckets(
    moto: str, s3_environment: pytest.MonkeyPatch, large: Path
) -> None:
    use_server(s3_environment, moto)
    client = boto3.client("s3", endpoint_url=moto)
    client.create_bucket(Bucket="moto-bucket")
    store = store_of("s3://moto-bucket/prefix")
    await store.upload("large", large, storage_class="GLACIER_IR")
    await store.put("small", b"small", storage_class="STANDARD_IA")
    found = client.head_object(Bucket="moto-bucket", Key="prefix/large")
    assert (found["ContentLength"], found["StorageClass"]) == (len(LARGE), "GLACIER_IR")
    found = client.head_object(Bucket="moto-bucket", Key="prefix/small")
    assert found["StorageClass"] == "STANDARD_IA"
    await store.delete(["none", "large", "small"])
    assert [each async for each in store.list()] == []
    client.close()
    missing = store_of("s3://no-such-bucket/prefix")
    message = "There is no bucket for s3://no-such-bucket/prefix; create it"
    with pytest.raises(ConfigurationError, match=message):
        await missing.put("a", b"")
    with pytest.raises(ConfigurationError, match=message):
        await missing.upload("a", large)
    with pytest.raises(ConfigurationError, match=message):
        [each async for each in missing.list()]


# --- servers that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ((503, "SlowDown"), SinkAway, "x: 503 Service Unavailable: SlowDown: as told$"),
        ((500, "InternalError"), SinkAway, "500 Internal Server Error"),
        ((429, "TooMany"), SinkAway, "429"),
        ((409, "OperationAborted"), SinkAway, "409"),
        ((400, "RequestTimeout"), SinkAway, "RequestTimeout"),
        ((400, "ExpiredToken"), ConfigurationError, "ExpiredToken: as told.; check its bucket"),
        ((400, "InvalidStorageClass"), ConfigurationError, "storage class"),
        ((401, "Unauthorized"), ConfigurationError, "check the credentials in the environment"),
        ((403, "AccessDenied"), ConfigurationError, "check the credentials in the environment"),
        ((403, "RequestTimeTooSkewed"), SinkAway, "the clocks of this machine and of the server"),
        ((404, "NoSuchBucket"), ConfigurationError, "There is no bucket for s3://.*; create it"),
        ((301, "PermanentRedirect"), ConfigurationError, "is in another region; set AWS_REGION"),
        ((413, ""), CrawlerError, "is refused .413 Payload Too Large"),
        ((400, "KeyTooLongError"), CrawlerError, "is refused .400 Bad Request: KeyTooLongError"),
    ],
)
async def test_an_answer_says_whether_to_wait_or_what_to_change(
    front: Front, s3_url: str, answer: tuple[int, str], kind: type[CrawlerError], message: str
) -> None:
    store = store_of(s3_url)
    front.answer = answer
    with pytest.raises(CrawlerError, match=message) as found:
        await store.put("x", b"1")
    assert type(found.value) is kind
    assert "\n" not in str(found.value)
    with pytest.raises(kind):
        [each async for each in store.list("x")]


async def test_a_hiccup_is_not_noticed(front: Front, s3_url: str) -> None:
    store = store_of(s3_url)
    front.answers = [(503, "SlowDown"), (500, "InternalError")]
    await store.put("x", b"1")
    assert await store.get("x") == b"1"


async def test_a_server_that_is_away_is_named(
    s3_url: str, s3_environment: pytest.MonkeyPatch, large: Path
) -> None:
    use_server(s3_environment, "http://127.0.0.1:1")
    store = store_of(s3_url)
    with pytest.raises(SinkAway, match=r"/x: http://127.0.0.1:1: .*Connection refused"):
        await store.put("x", b"1")
    with pytest.raises(SinkAway):
        await store.upload("x", large)
    with pytest.raises(SinkAway):
        await store.size("x")


async def test_a_silent_server_is_not_waited_for(
    s3_url: str, s3_environment: pytest.MonkeyPatch
) -> None:
    s3_environment.setattr(objects, "_DEADLINE_S", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        use_server(s3_environment, f"http://127.0.0.1:{silent.getsockname()[1]}")
        store = store_of(s3_url)
        for call in (store.put("x", b""), store.get("x"), store.size("x"), store.delete(["x"])):
            with pytest.raises(SinkAway, match="no answer in time"):
                await call
        with pytest.raises(SinkAway, match="no answer in time"):
            [each async for each in store.list()]


async def test_an_upload_that_is_cut_leaves_no_object(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch, large: Path
) -> None:
    with Proxy(s3_server.socket_path, messages=50) as proxy:
        use_server(s3_environment, f"http://{proxy.address}")
        with pytest.raises(SinkAway):
            await store_of(s3_url).upload("large", large)
    use_server(s3_environment, s3_server.endpoint)
    store = store_of(s3_url)
    assert await store.size("large") is None
    await store.upload("large", large)
    assert await store.size("large") == len(LARGE)


async def test_an_object_of_another_size_than_its_file_is_an_error(
    s3_url: str, s3_environment: pytest.MonkeyPatch, large: Path
) -> None:
    store = store_of(s3_url)

    async def other_size(name: str) -> int:
        return 3

    s3_environment.setattr(store, "size", other_size)
    with pytest.raises(SinkAway, match=r"large has 3 bytes after an upload of \d+"):
        await store.upload("large", large)


# --- credentials ----------------------------------------------------------------------------------


def no_keys(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("AWS_ACCESS_KEY_ID")
    environment.delenv("AWS_SECRET_ACCESS_KEY")


async def test_keys_and_server_may_be_those_of_a_profile(
    s3_url: str, s3_server: S3Server, s3_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        f"[profile archive]\nregion = eu-west-1\nendpoint_url = {s3_server.endpoint}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[default]\naws_access_key_id = other\naws_secret_access_key = other\n"
        f"[archive]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    )
    no_keys(s3_environment)
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION"):
        s3_environment.delenv(name)
    s3_environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    s3_environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    s3_environment.setenv("AWS_PROFILE", "archive")
    await store_of(s3_url).check()


async def test_wrong_credentials_and_those_that_only_read_are_refused_at_once(
    s3_url: str, s3_environment: pytest.MonkeyPatch
) -> None:
    await store_of(s3_url).put("x", b"1")
    s3_environment.setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret")
    with pytest.raises(ConfigurationError, match="check the credentials") as found:
        await store_of(s3_url).check()
    assert "wrong-secret" not in str(found.value)
    s3_environment.setenv("AWS_ACCESS_KEY_ID", READER_KEY)
    s3_environment.setenv("AWS_SECRET_ACCESS_KEY", READER_SECRET)
    reader = store_of(s3_url)
    assert await reader.get("x") == b"1"
    with pytest.raises(ConfigurationError, match="and what they permit"):
        await reader.check()


async def test_without_the_role_of_an_instance_the_error_says_how_to_give_credentials(
    s3_url: str, s3_environment: pytest.MonkeyPatch
) -> None:
    no_keys(s3_environment)
    s3_environment.delenv("AWS_EC2_METADATA_DISABLED")
    with pytest.raises(ConfigurationError, match=f"There are no credentials for {s3_url}: set"):
        await store_of(s3_url).check()


# --- other platforms ------------------------------------------------------------------------------


async def test_google_and_azure_are_asked_as_their_environment_says(
    s3_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    created = b'HTTP/1.1 201 Created\r\nContent-Length: 0\r\nETag: "1"\r\n\r\n'
    async with serving(created) as server:
        account = {"disable_oauth": True, "client_email": "", "private_key": ""}
        account |= {"private_key_id": "", "gcs_base_url": server.url.rstrip("/")}
        (tmp_path / "account.json").write_text(json.dumps(account))
        s3_environment.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "account.json"))
        s3_environment.setenv("GOOGLE_BASE_URL", server.url.rstrip("/"))
        s3_environment.setenv("AZURE_ENDPOINT", server.url.rstrip("/"))
        s3_environment.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        s3_environment.setenv("AZURE_STORAGE_ACCOUNT_KEY", b64encode(b"key").decode())
        await store_of("gs://bucket/prefix").put("x", b"1")
        await store_of("az://container/prefix").put("x", b"1")
    first, second = (request.partition(b"\r\n")[0] for request in server.requests)
    assert first == b"PUT /bucket/prefix%2Fx HTTP/1.1"
    assert second == b"PUT /container/prefix/x HTTP/1.1"
    assert b"\r\nauthorization: SharedKey account:" in server.requests[1]
