"""A GPU in MIG mode: each of its instances is a device, and a claim of one is prepared as a claim of a GPU."""

import asyncio
from pathlib import Path

from dra.fake_resource_api import FakeResourceApi
from dra.whole_driver import GIB, claim, driver
from nvshare import claim_file


def test_each_mig_instance_is_a_device_and_its_claim_is_prepared(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server, mig=1, gpus=3, memory=5 * GIB) as kubelet:
            instances = server.devices()
            uuids = [device["attributes"]["uuid"]["string"] for device in instances]
            assert len(set(uuids)) == 3
            assert all(uuid.startswith("MIG-") for uuid in uuids)
            assert [device["name"] for device in instances] == [uuid.lower() for uuid in uuids]
            for device in instances:
                assert "MIG 1g.5gb" in device["attributes"]["model"]["string"]
                assert device["capacity"]["memory"]["value"] == "10Gi"
            name, uid = claim(server, "u-1", at=1, memory=2 * GIB)
            (prepared,) = (await kubelet.prepare((name, uid)))[uid].devices
            assert prepared.device_name == uuids[1].lower()
            assert list(prepared.cdi_device_ids) == [f"nvidia.com/gpu={uuids[1]}", "nvshare.com/claim=u-1"]
            written = claim_file.decode((place / "operator/claims/u-1.json").read_bytes())
            assert written.limits == {uuids[1]: 2 * GIB}
            # The instance with a claim is the last that the next claim gets.
            await server.until(lambda: server.devices()[2]["name"] == prepared.device_name)

    asyncio.run(story())
