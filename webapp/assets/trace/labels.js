// The names in bars: what of a name is drawn where it does not fit, so that neighbours differ.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const FEWEST = 3; // letters and digits; fewer tell no name from another
  const TAIL = /\P{N}(\p{N}{1,5})$/u;
  const LONGEST = 400; // letters of a name that are looked at; no bar has room for more
  const STEP = 3; // pixels of room that share a cached text

  const isDigit = (text) => /\p{N}/u.test(text);
  const isLetter = (text) => /\p{L}/u.test(text);
  const isUpper = (text) => isLetter(text) && text !== text.toLowerCase();

  // Whether a token begins at a place: digits, a word after a separator, a hump.
  function isTokenStart(name, at) {
    if (at <= 0) return true;
    const [before, here] = [name[at - 1], name[at]];
    if (isDigit(here)) return !isDigit(before);
    if (!isLetter(here)) return false;
    return !isLetter(before) && !isDigit(before) || isUpper(here) && !isUpper(before);
  }

  function tokenStart(name, at) {
    let start = Math.min(at, name.length - 1);
    while (start > 0 && !isTokenStart(name, start)) start -= 1;
    return Math.max(0, start);
  }

  function shared(a, b) {
    const most = Math.min(a.length, b.length);
    let n = 0;
    while (n < most && a[n] === b[n]) n += 1;
    return n;
  }

  /**
   * Where the parts of every name begin that tell it from its siblings; -1 without siblings. `near` is the
   * token of the first difference from the nearest of them, `unique` an earlier one if others end alike.
   */
  space.distinctions = (labels, parents) => {
    const near = new Int32Array(labels.length);
    const unique = new Int32Array(labels.length);
    const families = new Map();
    labels.forEach((_, id) => {
      const family = families.get(parents[id]);
      if (family) family.push(id);
      else families.set(parents[id], [id]);
    });
    for (const family of families.values()) {
      if (family.length < 2) {
        near[family[0]] = unique[family[0]] = -1;
        continue;
      }
      family.sort((a, b) => labels[a] < labels[b] ? -1 : labels[a] > labels[b] ? 1 : 0);
      const common = family.map((id, i) => i ? shared(labels[family[i - 1]], labels[id]) : 0);
      family.forEach((id, i) => {
        near[id] = unique[id] = tokenStart(labels[id], Math.max(common[i], common[i + 1] || 0));
      });
      for (let left = family; left.length;) {
        const ends = new Map();
        for (const id of left) {
          const end = labels[id].slice(unique[id]);
          ends.set(end, [...ends.get(end) || [], id]);
        }
        left = [...ends.values()].filter((ids) => ids.length > 1).flat().filter((id) => unique[id] > 0);
        for (const id of left) unique[id] = tokenStart(labels[id], unique[id] - 1);
      }
    }
    return {near, unique};
  };

  // A cut is moved out of a pair of surrogates.
  const head = (text, n) => {
    const code = text.charCodeAt(n - 1);
    return text.slice(0, code >= 0xd800 && code < 0xdc00 ? n - 1 : n);
  };

  // The longest beginning of a text, at most `most` letters, with which `write` fits.
  function longest(text, most, write, room, measure) {
    let low = 0;
    let high = Math.min(most, LONGEST);
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (measure(write(head(text, middle))) <= room) low = middle;
      else high = middle - 1;
    }
    return head(text, low);
  }

  const nMeaningful = (text) => (text.match(/[\p{L}\p{N}]/gu) || []).length;

  /** Where nothing tells a name from siblings, for it has none. */
  space.ALONE = {unique: -1, near: -1};

  /**
   * What is drawn of a name in some room; empty where too little would be left. `unique` and `near` are where
   * the parts begin that tell it from its siblings, see `distinctions`.
   */
  space.labelText = (name, parent, {unique, near}, room, measure) => {
    if (name.length <= LONGEST && measure(name) <= room) return name;
    let text = name;
    let dropped = 0;
    const common = parent ? shared(parent, name) : 0;
    if (common >= parent.length && common > 0 && common < name.length) {
      // A name that begins with its parent's needs no second beginning.
      const isCut = isTokenStart(name, common) || !/[\p{L}\p{N}]/u.test(name[common]);
      const rest = isCut ? name.slice(common).replace(/^[^\p{L}\p{N}]+/u, '') : '';
      if (rest && (unique < 0 || unique >= name.length - rest.length)) {
        if (rest.length <= LONGEST && measure(rest) <= room) return rest;
        dropped = name.length - rest.length;
        text = rest;
      }
    }
    let start = 0;
    for (const place of new Set([unique - dropped, near - dropped])) {
      if (place <= 0) continue;
      const end = text.slice(place);
      start = place;
      if (end.length > LONGEST || measure('…' + end) > room) continue;
      const shown = longest(text, place, (part) => part + '…' + end, room, measure) + '…' + end;
      if (nMeaningful(shown) >= FEWEST) return shown;
    }
    text = text.slice(start);
    // Names that differ at their head: their end is cut, but for a short number.
    const [, number] = TAIL.exec(text.slice(-8)) || [];
    const lead = start > 0 ? '…' : '';
    for (const tail of number ? ['…' + number, '…'] : ['…']) {
      const part = longest(text, text.length - tail.length, (some) => lead + some + tail, room, measure);
      if (!part || measure(lead + part + tail) > room) continue;
      const shown = lead + part + tail;
      if (nMeaningful(part) >= (tail.length > 1 ? 2 : FEWEST) && nMeaningful(shown) >= FEWEST) return shown;
    }
    return '';
  };

  /** Texts of one source of names, kept by name and room. */
  space.Labels = class {
    constructor(source, measure) {
      this.source = source;
      this.measure = measure;
      this.kept = new Map();
      this.from = null;
    }

    text(id, room) {
      const {source} = this;
      if (!this.from || this.from.near.length !== source.labels.length) {
        this.from = space.distinctions(source.labels, source.parents);
        this.kept.clear();
      }
      const steps = Math.floor(room / STEP);
      const key = id * 4096 + Math.min(steps, 4095);
      let text = this.kept.get(key);
      if (text === undefined) {
        if (this.kept.size > 50000) this.kept.clear();
        const parent = source.parents[id] < 0 ? '' : source.label(source.parents[id]);
        const from = {unique: this.from.unique[id], near: this.from.near[id]};
        text = space.labelText(source.label(id), parent, from, steps * STEP, this.measure);
        this.kept.set(key, text);
      }
      return text;
    }
  };
})();
