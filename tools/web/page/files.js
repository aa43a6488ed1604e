// The list on the left: directories, files, the arrays of one file.

import { askJson } from "./api.js";
import * as numbers from "./numbers.js";

const MOST_ARRAYS = 200; // that are listed at once

const $ = (id) => document.getElementById(id);

function button(text, action) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", action);
  return made;
}

function row(tag, cells) {
  const made = document.createElement("tr");
  for (const cell of cells) {
    const one = document.createElement(tag);
    one.append(cell);
    made.append(one);
  }
  return made;
}

const isFloat = (dtype) => dtype.includes("f");
const count = (shape) => shape.reduce((product, extent) => product * extent, 1);

export class Files {
  #directory = []; // {name, key}, from the root on
  #latest = 0; // number of the last request for a listing
  #show;
  #report;

  /** `show(path, name, file, array)` is called for a chosen array, `report(problem)` with an Error, or null. */
  constructor(show, report) {
    this.#show = show;
    this.#report = report;
    $("filter").addEventListener("input", () => this.#list());
  }

  start() {
    return this.#enter([]);
  }

  #path(names) {
    return names.map((one) => one.key).join("%2F");
  }

  #enter(directory) {
    this.#directory = directory;
    $("filter").value = "";
    $("file").replaceChildren();
    return this.#list(true);
  }

  async #list(entered = false) {
    const asked = ++this.#latest;
    const directory = this.#directory;
    try {
      const listing = await askJson("list", this.#path(directory), { part: $("filter").value });
      if (asked !== this.#latest) return;
      this.#report(null);
      this.#drawPlace();
      this.#drawEntries(listing);
      const only = listing.entries.length === 1 ? listing.entries[0] : null;
      if (entered && only && !only.directory) await this.#openFile(only);
    } catch (problem) {
      this.#report(problem);
    }
  }

  #drawPlace() {
    const parts = [button("top", () => this.#enter([]))];
    this.#directory.forEach((one, i) => {
      parts.push(" / ", button(one.name, () => this.#enter(this.#directory.slice(0, i + 1))));
    });
    $("place").replaceChildren(...parts);
  }

  #drawEntries(listing) {
    const items = listing.entries.map((entry) => {
      const item = document.createElement("li");
      if (entry.directory) {
        item.append(button(`${entry.name}/`, () => this.#enter([...this.#directory, entry])));
      } else {
        const sizes = document.createElement("span");
        sizes.textContent = `${numbers.bytes(entry.size)} in ${numbers.bytes(entry.stored)}`;
        item.append(button(entry.name, () => this.#openFile(entry, item)), sizes);
      }
      return item;
    });
    if (items.length === 0 || listing.more) {
      const item = document.createElement("li");
      item.textContent = listing.more ? "... and more: type a part of the name above" : "nothing is here";
      items.push(item);
    }
    $("entries").replaceChildren(...items);
  }

  async #openFile(entry, item = $("entries").firstElementChild) {
    const path = this.#path([...this.#directory, entry]);
    const asked = ++this.#latest;
    try {
      const file = await askJson("file", path);
      if (asked !== this.#latest) return;
      this.#report(null);
      for (const one of $("entries").children) one.classList.toggle("chosen", one === item);
      const largest = [...file.arrays].sort(
        (a, b) => isFloat(b.dtype) - isFloat(a.dtype) || count(b.shape) - count(a.shape),
      )[0];
      this.#drawFile(path, entry.name, file, largest);
      if (largest) this.#show(path, entry.name, file, largest);
    } catch (problem) {
      this.#report(problem);
    }
  }

  #drawFile(path, name, file, chosen) {
    const about = document.createElement("p");
    about.textContent =
      `${numbers.bytes(file.size)} stored as ${numbers.bytes(file.stored)}, ${numbers.ratio(file.size, file.stored)}, ` +
      `${file.state}${file.format ? `, ${file.format}` : ""}${file.note ? `; ${file.note}` : ""}`;
    $("file").replaceChildren(about);
    if (file.arrays.length === 0) {
      const none = document.createElement("p");
      none.textContent =
        file.state === "staged"
          ? "It is being written: its arrays are known once it is sealed."
          : "No arrays are known in it: it is stored as bytes.";
      $("file").append(none);
      return;
    }
    const table = document.createElement("table");
    $("file").append(table);
    const fill = (part) => this.#fillTable(table, path, name, file, chosen, part);
    if (file.arrays.length > MOST_ARRAYS) {
      const filter = document.createElement("input");
      filter.type = "search";
      filter.placeholder = `of ${file.arrays.length} arrays, those with ...`;
      filter.addEventListener("input", () => fill(filter.value));
      table.before(filter);
    }
    fill("");
  }

  #fillTable(table, path, name, file, chosen, part) {
    const arrays = file.arrays.filter((array) => array.name.includes(part)).slice(0, MOST_ARRAYS);
    table.replaceChildren(row("th", ["array", "type", "shape", "size", "stored", "ratio", "bound"]));
    for (const array of arrays) {
      const line = row("td", [
        button(array.name || "(the array)", () => {
          for (const one of table.rows) one.classList.toggle("chosen", one === line);
          this.#show(path, name, file, array);
        }),
        array.dtype,
        array.shape.join(" × ") || "scalar",
        numbers.bytes(array.size),
        numbers.bytes(array.stored),
        numbers.ratio(array.size, array.stored),
        array.bound,
      ]);
      line.classList.toggle("chosen", array === chosen);
      table.append(line);
    }
  }
}
