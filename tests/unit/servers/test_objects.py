"""URLs of object stores, and how their platforms are asked."""

import sys
from pathlib import Path

import pytest

from crawler.errors import ConfigurationError
from crawler.servers.objects import ObjectStore, is_store_url


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("s3://bucket/prefix", True),
        ("gs://bucket", True),
        ("az://container/a/b", True),
        ("file:///folder", True),
        ("s3:bucket", False),
        ("http://bucket", False),
        ("archive/", False),
        ("", False),
    ],
)
def test_a_url_names_an_object_store_by_its_scheme(text: str, is_one: bool) -> None:
    assert is_store_url(text) is is_one


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("bucket", r"WARC_UPLOAD is 'bucket'; use s3://bucket/prefix"),
        ("s3://", "without a bucket"),
        ("s3:///prefix", "without a bucket"),
        ("s3://[bucket", "which is no URL"),
        ("s3://key:secret123@bucket", "give credentials as the platform has them"),
        ("s3://bucket?endpoint=http://a.test", "only bucket and prefix in the URL"),
        ("s3://bucket/a#b", "only bucket and prefix in the URL"),
        ("file://folder/x", "name a folder by its whole path: file:///folder"),
        ("file:///", "name a folder by its whole path"),
        ("az://container/prefix", "WARC_UPLOAD is 'az://container/prefix'"),
    ],
)
def test_a_wrong_url_is_refused_in_a_line_without_secrets(
    url: str, message: str, s3_environment: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=message) as found:
        ObjectStore.from_url(url, what="WARC_UPLOAD")
    assert "\n" not in str(found.value)
    assert "secret123" not in str(found.value)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="WARC_UPLOAD is 'file:///"):
        ObjectStore.from_url(f"file://{tmp_path}/file/folder", what="WARC_UPLOAD")


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "obstore.store", raising=False)
    with pytest.raises(ConfigurationError, match=r'pip install "mercator-crawler\[s3\]"'):
        ObjectStore.from_url("s3://bucket", what="WARC_UPLOAD")


def test_without_any_credentials_the_error_says_how_to_give_some(
    s3_environment: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigurationError, match="There are no credentials for SINKS: set AWS_AC"):
        ObjectStore.from_url("s3://bucket", what="SINKS")


def test_a_profile_that_does_not_exist_is_named(s3_environment: pytest.MonkeyPatch) -> None:
    s3_environment.setenv("AWS_PROFILE", "archive")
    with pytest.raises(ConfigurationError, match="AWS_PROFILE is 'archive', and there is no such"):
        ObjectStore.from_url("s3://bucket", what="SINKS")


def test_a_file_of_profiles_that_cannot_be_read_is_an_error(
    s3_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("no section\n")
    s3_environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(ConfigurationError, match=r"SINKS is 's3://bucket'.*no section headers"):
        ObjectStore.from_url("s3://bucket", what="SINKS")


def test_a_profile_with_a_role_needs_boto3(
    s3_environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("[profile archive]\nrole_arn = arn:aws:iam::1:role/a\n")
    s3_environment.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    s3_environment.setenv("AWS_PROFILE", "archive")
    s3_environment.setitem(sys.modules, "boto3", None)
    s3_environment.delitem(sys.modules, "obstore.auth.boto3", raising=False)
    with pytest.raises(ConfigurationError, match="pip install boto3"):
        ObjectStore.from_url("s3://bucket", what="SINKS")
