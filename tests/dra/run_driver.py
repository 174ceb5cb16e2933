"""nvshare-dra-driver with the tests' API server instead of the cluster's: run_driver.py PORT FLAGS..."""

import sys
from unittest.mock import patch

from nvshare.dra.main import main
from nvshare.kube.client import Server

server = Server(host="127.0.0.1", port=int(sys.argv[1]), token_path=None, tls=False)
with patch("nvshare.dra.main.in_cluster", return_value=server):
    main(sys.argv[2:])
