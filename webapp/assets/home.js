// Reports: recent ones, figures of each, a filter, and two that are compared by ticking them.
(function () {
  'use strict';
  const RECENT = 'tilescope-recent';
  const MOST_RECENT = 6;
  const BATCH = 6;
  const EVERY_MS = 2000;
  const TYPING_MS = 200;
  const MOST_ASKED = 20;

  function recent() {
    try { return JSON.parse(localStorage.getItem(RECENT) || '[]'); } catch (error) { return []; }
  }

  // The newest first; a pair is an entry of its own.
  function noteRecent(report, candidate) {
    const entry = {id: report.id, label: report.label};
    if (candidate) Object.assign(entry, {with: candidate.id, withLabel: candidate.label});
    const key = (pair) => pair.id + '+' + (pair.with || '');
    const entries = [entry, ...recent().filter((earlier) => key(earlier) !== key(entry))].slice(0, 24);
    try { localStorage.setItem(RECENT, JSON.stringify(entries)); } catch (error) { /* private mode */ }
  }
  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {noteRecent});

  const {reports, isCut} = window.tilescope.frame;
  const byId = (id) => document.getElementById(id);
  if (!byId('recent')) return;  // another page

  async function showRecent() {
    const known = new Map(reports.map((report) => [report.id, report.label]));
    const missing = recent().flatMap((entry) => [entry.id, entry.with]).filter((id) => id && !known.has(id));
    if (missing.length && isCut) {  // the page lists the first reports only
      const query = new URLSearchParams([...new Set(missing)].slice(0, MOST_ASKED).map((id) => ['id', id]));
      const answer = await fetch('/api/reports?' + query);
      const listed = answer.ok ? (await window.tilescope_text.read(answer)).reports : [];
      for (const report of listed) known.set(report.id, report.label);
    }
    const entries = recent().filter((entry) => known.has(entry.id) && (!entry.with || known.has(entry.with)));
    byId('recent').hidden = entries.length === 0;
    byId('recent-list').replaceChildren(...entries.slice(0, MOST_RECENT).map((entry) => {
      const query = new URLSearchParams({report: entry.id, ...(entry.with ? {with: entry.with} : {})});
      const link = document.createElement('a');
      link.className = 'page-link';
      link.href = '/summary?' + query;
      link.textContent = known.get(entry.id) + (entry.with ? ' → ' + known.get(entry.with) : '');
      const item = document.createElement('li');
      item.append(link);
      return item;
    }));
  }
  showRecent().catch(() => {});

  const table = /** @type {HTMLTableElement} */ (byId('reports-table'));
  /** @type {HTMLTableRowElement[]} */
  let rows = [];
  const find = /** @type {HTMLInputElement} */ (byId('reports-find'));
  const note = byId('reports-note');
  const whole = note?.textContent;

  // The filter is in the address, so that a link or a reload shows the same rows.
  function filter() {
    if (isCut) return;  // the server filters
    const wanted = window.tilescope_search.words(find.value);
    let n = 0;
    for (const row of rows) {
      row.hidden = !window.tilescope_search.fit(wanted, row.textContent);
      if (!row.hidden) n += 1;
    }
    if (!note) return;
    const counted = n ? n + ' of ' + rows.length + ' reports' : 'No report matches; clear the filter to see all.';
    note.textContent = find.value ? counted : whole;
  }

  let turn = 0;
  async function filterThere() {
    const own = turn += 1;
    await new Promise((resolve) => { setTimeout(resolve, TYPING_MS); });
    if (own !== turn) return;
    const answer = await fetch('/?' + new URLSearchParams({find: find.value}));
    if (own !== turn || !answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (own !== turn) return;
    const there = /** @type {HTMLTableElement} */ (page.getElementById('reports-table'));
    table.tBodies[0].replaceWith(document.adoptNode(there.tBodies[0]));
    note.textContent = page.getElementById('reports-note').textContent;
    takeRows();
    await fillPending();
  }

  // Two ticked reports are compared, the first one as the baseline.
  /** @type {{id: string, label: string}[]} */
  const ticked = [];
  function tick(row, box) {
    const at = ticked.findIndex((report) => report.id === row.dataset.report);
    if (box.checked && at < 0) ticked.push({id: row.dataset.report, label: row.dataset.label});
    else if (!box.checked && at >= 0) ticked.splice(at, 1);
    if (ticked.length === 2) {
      const [report, candidate] = ticked;
      location.assign('/summary?' + new URLSearchParams({report: report.id, with: candidate.id}));
    }
    byId('compare-note').textContent = ticked.length === 1
      ? ticked[0].label + ' is the baseline; tick its candidate.'
      : 'Tick two reports to compare them.';
  }

  function takeRows() {
    rows = [...document.querySelectorAll('tr[data-report]')].map((row) => /** @type {HTMLTableRowElement} */ (row));
    for (const row of rows) {
      /** @type {HTMLInputElement} */
      const box = row.querySelector('input.report-tick');
      box.checked = ticked.some((report) => report.id === row.dataset.report);
      box.addEventListener('change', () => tick(row, box));
    }
  }

  // The figures of a report that nobody has read yet take opening it: they come after the list.
  async function fill(part) {
    const query = new URLSearchParams(part.map((row) => ['id', row.dataset.report]));
    const answer = await fetch('/api/reports/overviews?' + query);
    if (!answer.ok) return [];
    const {overviews, unsettled} = await window.tilescope_text.read(answer);
    for (const row of part) {
      for (const {name, text, href} of overviews[row.dataset.report] || []) {
        const cell = row.querySelector('[data-cell="' + name + '"]');
        if (!cell) continue;
        const shown = href ? document.createElement('a') : document.createTextNode('');
        shown.textContent = text;
        if (shown instanceof HTMLAnchorElement) { shown.href = href; shown.className = 'page-link'; }
        if (cell.textContent !== text) cell.replaceChildren(shown);
      }
    }
    if (find.value) filter();  // what has come may fit, or no longer
    return part.filter((row) => unsettled.includes(row.dataset.report));
  }

  // Fills rows; returns those whose state may change by itself.
  async function fillAll(pending) {
    const unsettled = [];
    for (let at = 0; at < pending.length; at += BATCH) unsettled.push(...await fill(pending.slice(at, at + BATCH)));
    return unsettled;
  }
  async function fillPending() {
    const own = turn;
    let unsettled = await fillAll(rows.filter((row) => row.dataset.pending !== undefined));
    document.documentElement.dataset.filled = '1';
    while (unsettled.length && own === turn) {  // engines write them, or they are being verified
      await new Promise((resolve) => { setTimeout(resolve, EVERY_MS); });
      unsettled = await fillAll(unsettled);
    }
  }

  takeRows();
  find.value = new URLSearchParams(location.search).get('find') || '';
  if (find.value) filter();
  find.addEventListener('input', () => {
    filter();
    const address = new URL(location.href);
    if (find.value) address.searchParams.set('find', find.value);
    else address.searchParams.delete('find');
    history.replaceState(history.state, '', address);
    if (isCut) filterThere().catch(() => {});
  });
  fillPending().catch(() => {});
})();
