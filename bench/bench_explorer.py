"""Pages of the explorer over a chain of 100,000 blocks: from a request to the admin port to the whole answer."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from tests.conftest import short_chain as short_chain
from tests.status_page.conftest import LONG_CHAIN_BLOCKS, Site
from tests.status_page.conftest import long_chain as long_chain
from tests.status_page.conftest import long_site as long_site
from tests.status_page.conftest import open_site as open_site
from tests.status_page.conftest import runner as runner
from tests.status_page.conftest import start_site as start_site

FEE_JUICE = "0x" + "5".zfill(64)
MIDDLE = LONG_CHAIN_BLOCKS // 2
PAGES = (
    *("newest", "blocks", f"blocks {MIDDLE}", "transactions", f"transactions {MIDDLE}", "checkpoints", "epochs"),
    *("pending", "contracts", "classes", str(MIDDLE), FEE_JUICE, f"{FEE_JUICE}:0", f"calls {FEE_JUICE}"),
)


@pytest.mark.parametrize("query", PAGES)
def test_a_page_of_a_long_chain(benchmark: Any, long_site: Site, query: str) -> None:
    benchmark(long_site.get, f"status-page/find?q={quote(query)}")
