// Kinds of steps are shown or hidden from the legend; the address holds the hidden ones.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const SHARES_MS = 150;
  const GROUP = 9; // kinds from here on are no kinds of steps

  // Bit k is set where kind k is hidden.
  space.hiddenKinds = (text, kinds) => {
    const names = (text || '').split(',');
    return kinds.filter((kind) => kind.number < GROUP && names.includes(kind.name))
      .reduce((bits, kind) => bits | 1 << kind.number, 0);
  };

  space.kindNames = (bits, kinds) => kinds.filter((kind) => bits & 1 << kind.number).map((kind) => kind.name);

  // What the server calls the lanes of a view.
  space.viewOf = ({view, merge}) => view === 'flat' ? 'flat' : merge === '1' ? 'calls' : 'flame';

  /** A share of the visible range as a short text. */
  space.shareText = (share) => {
    if (!(share > 0)) return '–';
    const percent = 100 * share;
    if (percent < 0.1) return '<0.1 %';
    return (percent < 9.95 ? percent.toFixed(1) : percent.toFixed(0)) + ' %';
  };

  (space.parts = space.parts || []).push({
    // Chips of the kinds that the report has: a click hides one, with Alt all others.
    paintLegend() {
      const present = this.present || 0;
      this.legend.textContent = '';
      this.chips = new Map();
      for (const kind of this.kinds) {
        const bit = 1 << kind.number;
        if (kind.number >= GROUP || !(present & bit) && !(this.hidden & bit)) continue;
        const chip = space.make('button', 'trace-legend-item', this.legend);
        const swatch = space.make('span', 'trace-swatch trace-swatch-letter', chip);
        swatch.style.background = 'var(--trace-' + kind.name.replaceAll('_', '-') + ')';
        swatch.style.color = 'var(--trace-on-' + kind.name.replaceAll('_', '-') + ')';
        swatch.textContent = kind.letter;
        swatch.setAttribute('aria-hidden', 'true');
        const name = space.make('span', 'trace-chip-name', chip);
        name.textContent = kind.label + ' ';
        const share = space.make('span', 'trace-chip-share', chip);
        const isShown = !(this.hidden & bit);
        chip.type = 'button';
        chip.setAttribute('aria-pressed', String(isShown));
        chip.title = kind.label + ': a click ' + (isShown ? 'hides' : 'shows') + ' it, Alt and click only it';
        chip.addEventListener('click', (event) => {
          const others = space.kindNames(~bit & (1 << GROUP) - 1, this.kinds);
          const isOnly = space.kindNames(this.hidden, this.kinds).join() === others.join();
          const names = event.altKey ? (isOnly ? [] : others) : space.kindNames(this.hidden ^ bit, this.kinds);
          window.tilescope.changeView({hide: names.join(',')}, false);
        });
        this.chips.set(kind.number, share);
      }
      this.writeShares();
    },

    // The shares follow the visible range, at most every 150 ms.
    updateLegend() {
      if (this.sharesLater) return;
      this.sharesLater = setTimeout(() => {
        this.sharesLater = 0;
        this.writeShares();
      }, SHARES_MS);
    },

    writeShares() {
      if (!this.extent || !this.chips) return;
      const sums = new Float64Array(GROUP);
      for (const group of this.groups) {
        const data = group.tile === undefined ? this.best(group) : null;
        if (!data || !data.columns) continue;
        const place = (cycle) => (cycle - data.start) / data.perPixel;
        space.columnSums(data.columns, place(this.range.start), place(this.range.end))
          .forEach((cycles, kind) => { sums[kind] += cycles; });
      }
      const all = sums.reduce((a, b) => a + b, 0);
      for (const [kind, element] of this.chips) {
        const text = all ? space.shareText(sums[kind] / all) : '';
        if (element.textContent !== text) element.textContent = text;
      }
    },

    // Notes which kinds the report has.
    notePresent(lanes) {
      const kinds = lanes.reduce((bits, lane) => bits | lane.kinds, 0) & (1 << GROUP) - 1;
      if ((this.present | kinds) === this.present) return;
      this.present |= kinds;
      this.paintLegend();
    },
  });
})();
