#!/usr/bin/python3
"""The page of varve web in headless Chromium: lists, slices from coarse to fine, controls, errors."""

import os
import re
import time
import urllib.parse

import h5py
import mounted
import numpy as np
from browser import Browser
from mounted import check, equal
from test_hdf5 import smooth
from test_web import flip
from web import Web

WATCH = """
window.levels = [];
new MutationObserver(() => {
  const level = document.getElementById('shown').dataset.level;
  if (level !== undefined) window.levels.push(Number(level));
}).observe(document.getElementById('shown'), {attributes: true, attributeFilter: ['data-level']});
performance.setResourceTimingBufferSize(10000);
"""
SLICES = """
return performance.getEntriesByType('resource').map((one) => one.name).filter((name) => name.includes('/api/slice'));
"""
# The colour in the middle of element (row, column) of a slice that is shown whole, and how many colours there are.
PIXELS = """
const [row, column, rows, columns] = arguments;
const canvas = document.getElementById('picture');
const scale = canvas.width / canvas.clientWidth;
const area = {left: 70, top: 12, width: canvas.clientWidth - 166, height: canvas.clientHeight - 56};
const size = Math.min(area.width / columns, area.height / rows);
const x = area.left + area.width / 2 + (column + 0.5 - columns / 2) * size;
const y = area.top + area.height / 2 - (row + 0.5 - rows / 2) * size;
const context = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', {willReadFrequently: true});
context.drawImage(canvas, 0, 0);
const all = context.getImageData(area.left * scale, area.top * scale, area.width * scale, area.height * scale).data;
const colours = new Set();
for (let i = 0; i < all.length; i += 4) colours.add((all[i] << 16) | (all[i + 1] << 8) | all[i + 2]);
return [[...context.getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1).data], colours.size];
"""


def asked(browser):
    """The parameters of the slices that were asked for so far."""
    return [dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(name).query)) for name in browser.run(SLICES)]


def start(browser, web):
    browser.go(web.url)
    browser.wait("return document.querySelectorAll('#entries li').length > 0")
    browser.run(WATCH)


def loaded(browser, level=0):
    browser.wait("return document.getElementById('shown').dataset.level === arguments[0]", str(level))


def forget(browser):
    browser.run("window.levels.length = 0; performance.clearResourceTimings();")


def scenario_slices(m):
    """Coarse levels come first; sliders, axes, level, bound and zoom ask for what they say; pixels are the values'."""
    m.bound("rel:1e-3")
    field = smooth((100, 160, 200))
    with h5py.File(m.root / "run.h5", "w") as file:
        file["u"] = field
        file["small"] = np.arange(12.0).reshape(3, 4)
    stored = h5py.File(m.root / "run.h5", "r")["u"][...]
    np.save(m.root / "other.npy", field[:3])
    with Web(m.root) as web, Browser() as browser:
        start(browser, web)
        equal(browser.run("return location.hash + location.search"), "", "the token is not in the address")
        entries = browser.run("return [...document.querySelectorAll('#entries button')].map((one) => one.textContent)")
        equal(entries, ["other.npy", "run.h5"], "the files are listed")
        browser.click("#entries button", "run.h5")
        loaded(browser)
        check("/u" in browser.text() and "160 × 200" in browser.text() and "rel:0.001" in browser.text(), "array, shape and bound are listed")
        equal(browser.run("return window.levels"), [3, 2, 1, 0], "levels come coarse first")
        equal([one["level"] for one in asked(browser)], ["3", "2", "1", "0"], "and are asked for so")
        equal(asked(browser)[0]["rows"], "1:0:160:8", "the coarse one at each eighth point")
        for row, column in ((20, 30), (80, 100), (140, 190), (5, 150)):
            pixel, colours = browser.run(PIXELS, row, column, 160, 200)
            value = stored[50, row, column]
            most = np.abs(stored[50]).max()
            if abs(value) > 0.1 * most:  # an array of both signs: red above 0, blue below
                check((pixel[0] > pixel[2]) == (value > 0) and pixel[3] == 255, f"the pixel of {value:.3g} is {pixel[:3]}")
        check(colours > 50, f"{colours} colours are in the picture")
        if os.environ.get("VARVE_SCREENSHOT"):
            browser.screenshot(os.environ["VARVE_SCREENSHOT"])

        forget(browser)
        browser.set("#indices input[type=range]", 51)
        browser.wait("return window.levels.length === 4")
        equal(browser.run("return window.levels"), [3, 2, 1, 0], "a moved slider loads coarse first")
        equal({one["at"].split(",")[0] for one in asked(browser)}, {"51"}, "the plane it says")
        equal(browser.run("return document.querySelector('#indices input[type=number]').value"), "51", "the number follows")

        forget(browser)
        browser.run(
            "const one = document.querySelector('#indices input[type=range]');"
            "for (let i = 0; i < 40; ++i) { one.value = i; one.dispatchEvent(new Event('input', {bubbles: true})); }"
        )
        browser.wait("return window.levels.at(-1) === 0")
        fine = [one["at"].split(",")[0] for one in asked(browser) if one["level"] == "0"]
        equal(fine, ["39"], "of 40 moves in a row the last one alone gets to level 0")

        forget(browser)
        browser.set("#level", 2)
        loaded(browser, 2)
        check("0" not in [one["level"] for one in asked(browser)], "the finest level is kept to")
        browser.set("#level", 0)
        loaded(browser, 0)
        browser.set("#bound-text", "rel:0.5", "change")
        browser.wait("return document.getElementById('bound-says').textContent.startsWith('kept from level')")
        kept = int(re.search(r"level (\d)", browser.run("return document.getElementById('bound-says').textContent"))[1])
        check(kept > 0, f"a looser bound stops at level {kept}")
        loaded(browser, kept)
        browser.set("#bound-text", "rel:1e-9", "change")
        browser.wait("return document.getElementById('bound-says').textContent.includes('larger errors')")
        browser.set("#bound-text", "", "change")
        loaded(browser, 0)

        forget(browser)
        browser.set("#rows", 0, "change")
        browser.wait("return window.levels.length >= 4")
        equal((asked(browser)[-1]["rows"], asked(browser)[-1]["columns"]), ("0:0:100:1", "2:0:200:1"), "other axes")
        browser.set("#columns", 0, "change")
        browser.wait("return window.levels.length >= 8")
        equal((asked(browser)[-1]["rows"], asked(browser)[-1]["columns"]), ("2:0:200:1", "0:0:100:1"), "that change places")
        browser.set("#rows", 1, "change")
        browser.set("#columns", 2, "change")
        browser.set("#indices input[type=range]", 51)
        browser.wait("return window.levels.at(-1) === 0 && document.getElementById('shown').textContent.includes('160 × 200')")

        box = browser.run("const box = document.getElementById('picture').getBoundingClientRect(); return [box.left, box.top, box.width, box.height]")
        browser.run(
            "const [x, y] = arguments; document.getElementById('picture').dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: y}));",
            box[0] + 70 + (box[2] - 166) / 2, box[1] + 12 + (box[3] - 56) / 2)
        said = browser.run("return document.getElementById('cursor').textContent")
        found = re.match(r"z = (\d+), y = (\d+), x = (\d+): (\S+)", said)
        value = stored[tuple(int(found[i]) for i in (1, 2, 3))]
        check(found[1] == "51" and abs(float(found[4]) - value) < 1e-6 * abs(value), f"under the cursor: {said}")

        forget(browser)
        for _ in range(5):
            browser.run("document.getElementById('closer').click()")
        browser.wait("return window.levels.at(-1) === 0 && performance.getEntriesByType('resource').length > 0")
        start_at, stop_at = (int(part) for part in asked(browser)[-1]["columns"].split(":")[1:3])
        check(50 < start_at < stop_at < 150, f"zoomed in, columns {start_at} to {stop_at} alone are asked for")
        browser.set("#compact", "on")
        browser.run("document.getElementById('compact').click()")
        browser.wait("return performance.getEntriesByType('resource').at(-1).name.includes('type=u16')")
        browser.run("document.getElementById('all').click()")
        browser.wait("return window.levels.at(-1) === 0 && document.getElementById('shown').textContent.includes('160 × 200')")

        browser.click("#file td button", "/small")
        browser.wait("return document.getElementById('shown').textContent.includes('3 × 4')")
        browser.click("#entries button", "other.npy")
        browser.wait("return document.getElementById('name').textContent === 'other.npy'")
        loaded(browser)
        equal(browser.problems(), [], "nothing is on the console")
        browser.run("location.reload()")
        browser.wait("return document.querySelectorAll('#entries li').length === 2")
        check(True, "a reload works without the token in the address")


def scenario_kinds(m):
    """Lines, single values, complex numbers, missing values, and names that look like a page's own words."""
    m.bound("rel:1e-3")
    np.save(m.root / "line.npy", np.cumsum(np.random.default_rng(0).normal(size=100_000)).astype("f4"))
    wave = smooth((64, 64, 64))
    np.save(m.root / "complex.npy", (wave + 1j * wave).astype("c8"))
    np.save(m.root / "wide.npy", np.cumsum(np.random.default_rng(1).normal(size=(5, 400_000)), axis=1).astype("f4"))
    np.save(m.root / "nan.npy", np.full((100, 120), np.nan, "f4"))
    names = ["<img src=x onerror=alert(1)>", "<script>alert(2)<-script>", "a&amp;b \"c\" 'd'", "雪 é"]
    for name in names:
        np.save(m.root / f"{name}.npy", wave)
    with h5py.File(m.root / "odd.h5", "w") as file:
        file["<b>bold</b>"] = wave
        file["scalar"] = 2.5
    with h5py.File(m.root / "many.h5", "w") as file:
        for i in range(250):
            file[f"group/array{i}"] = np.arange(100, dtype="f4") * i
    (m.root / "text").write_text("text")
    m.stop()
    with Web(m.store) as web, Browser() as browser:
        start(browser, web)
        listed = browser.run("return [...document.querySelectorAll('#entries button')].map((one) => one.textContent)")
        check({f"{name}.npy" for name in names} <= set(listed), "names are shown as they are")
        equal(browser.run("return document.querySelectorAll('nav img, nav script, nav b, h1 *').length"), 0, "and are text alone")
        for name in ["line.npy", "complex.npy", *(f"{name}.npy" for name in names)]:
            browser.click("#entries button", name)
            browser.wait("return document.getElementById('name').textContent === arguments[0]", name)
            browser.wait("return document.getElementById('shown').dataset.level !== undefined")
        browser.click("#entries button", "wide.npy")
        browser.wait("return document.getElementById('shown').textContent.includes(': 5 × ')")
        time.sleep(0.5)  # more would come at once
        wide = [one for one in asked(browser) if one["path"] == "wide.npy"]
        equal([one["level"] for one in wide], ["3"], "no level is asked for that the screen cannot show")
        equal((wide[0]["rows"], int(wide[0]["columns"].split(":")[3]) >= 256), ("0:0:5:1", True), "a short axis stays whole")
        browser.click("#entries button", "complex.npy")
        loaded(browser)
        check(not browser.run("return document.getElementById('part-label').hidden"), "parts of complex numbers can be chosen")
        browser.set("#part", "phase")
        browser.wait("return performance.getEntriesByType('resource').at(-1).name.includes('part=phase')")
        browser.click("#entries button", "odd.h5")
        browser.wait("return document.getElementById('name').textContent === 'odd.h5: /<b>bold</b>'")
        browser.click("#entries button", "many.h5")
        browser.wait("return document.querySelectorAll('#file tr').length === 201")
        browser.set("#file input", "array249")
        browser.wait("return document.querySelectorAll('#file tr').length === 2")
        browser.click("#file td button", "/group/array249")
        browser.wait("return document.getElementById('name').textContent === 'many.h5: /group/array249'")
        browser.click("#entries button", "nan.npy")
        browser.wait("return document.getElementById('shown').textContent.includes('12000 of them missing')")
        pixel, _ = browser.run(PIXELS, 50, 60, 100, 120)
        equal(pixel[:3], [0xB8] * 3, "what is missing is grey")
        browser.click("#entries button", "text")
        browser.wait("return document.getElementById('file').textContent.includes('stored as bytes')")
        browser.set("#filter", "complex")
        browser.wait("return document.querySelectorAll('#entries li').length === 1")
        equal(browser.problems(), [], "nothing is on the console")


def scenario_problems(m):
    """Without the token, with a damaged store, and after the program has ended the page says so and shows nothing wrong."""
    m.bound("rel:1e-4")
    np.save(m.root / "a.npy", np.random.default_rng(3).normal(size=(64, 256, 256)).astype("f4"))
    np.save(m.root / "b.npy", smooth((64, 64, 64)))
    m.stop()
    pack = max((m.store / "packs").iterdir(), key=lambda path: path.stat().st_size)
    for offset in range(pack.stat().st_size // 5, pack.stat().st_size, pack.stat().st_size // 4):
        flip(pack, offset)
    with Browser() as browser:
        with Web(m.store) as web:
            browser.go(web.url.partition("#")[0])
            browser.wait("return document.getElementById('problem').textContent.includes('token')")
            browser.go("about:blank")
            start(browser, web)
            browser.click("#entries button", "a.npy")
            browser.wait("return document.getElementById('problem').textContent.includes('varve scrub')")
            said = browser.run("return document.getElementById('problem').textContent")
            level = browser.run("return document.getElementById('shown').dataset.level")
            check(level != "0", f"level 0 is not shown (but {level}): {said}")
            browser.click("#entries button", "b.npy")
            browser.wait("return document.getElementById('problem').hidden && document.getElementById('name').textContent === 'b.npy'")
            loaded(browser)
        browser.set("#indices input[type=range]", 3)
        browser.wait("return document.getElementById('problem').textContent.includes('does not answer')")
        equal(browser.run("return document.getElementById('shown').dataset.level ?? null"), None, "and no plane is shown for another")


if __name__ == "__main__":
    mounted.main(mounted.scenarios(globals()))
