// Go to …: pages, reports, operations, variables, steps and tiles by a few letters (Ctrl-K).
(function () {
  'use strict';
  const dialog = /** @type {HTMLDialogElement} */ (document.getElementById('palette'));
  const box = /** @type {HTMLInputElement} */ (document.getElementById('palette-text'));
  const list = document.getElementById('palette-list');
  const note = document.getElementById('palette-note');
  const {pages, reports, isApp, isCut} = window.tilescope.frame;
  const MOST_REPORTS = 8;

  /** @type {{kind: string, label: string, detail?: string, href?: string, act?: () => void}[]} */
  let entries = [];
  let chosen = 0;
  let asked = 0;

  function query(parameters) {
    const here = new URLSearchParams(location.search);
    const found = new URLSearchParams(parameters);
    for (const name of ['report', 'with']) if (here.get(name)) found.set(name, here.get(name));
    const text = found.toString();
    return text ? '?' + text : '';
  }

  function own(text) {
    const words = window.tilescope_search.words(text);
    const fits = (label) => window.tilescope_search.fit(words, label);
    const listed = isApp ? pages.filter((page) => fits(page.title)) : [];
    return [
      ...listed.map((page) => ({kind: 'Page', label: page.title, href: page.path + query({})})),
      ...(fits('Reports') ? [{kind: 'Page', label: 'Reports', href: '/'}] : []),
    ];
  }

  // The page lists the first reports only if there are many; the server knows all.
  async function matchingReports(text) {
    const words = window.tilescope_search.words(text);
    if (!words.length) return [];
    const answer = isCut ? await json('/api/reports?' + new URLSearchParams({find: text})) : null;
    return (answer ? answer.reports : reports)
      .filter((report) => window.tilescope_search.fit(words, report.label)).slice(0, MOST_REPORTS)
      .map((report) => ({kind: 'Report', label: report.label, href: '/summary?report=' + report.id}));
  }

  async function json(address) {
    try {
      const answer = await fetch(address);
      return answer.ok ? await window.tilescope_text.read(answer) : null;
    } catch (error) { return null; }
  }

  const UNITS = [['binary', 'KiB, MiB (1,024)'], ['si', 'kB, MB (1,000)'], ['bytes', 'bytes only']];

  /** @returns {{kind: string, label: string, detail?: string, href?: string, act?: () => void}[]} */
  function settings(text) {
    const words = window.tilescope_search.words(text);
    const now = document.documentElement.dataset.units;
    const found = UNITS.map(([style, label]) => ({
      kind: 'Setting', label: 'Units of memory: ' + label, detail: style === now ? 'in use' : '',
      act: () => {
        document.cookie = 'tilescope_units=' + style + ';path=/;max-age=31536000;samesite=strict';
        location.reload();
      },
    }));
    const scheme = {
      kind: 'Setting', label: 'Light or dark colour scheme',
      act: () => document.getElementById('scheme-button').click(),
    };
    return words.length ? [...found, scheme].filter((one) => window.tilescope_search.fit(words, one.label)) : [];
  }

  function mark() {
    [...list.children].forEach((row, index) => {
      row.setAttribute('aria-selected', String(index === chosen));
      if (index === chosen) row.scrollIntoView({block: 'nearest'});
    });
    if (entries.length) box.setAttribute('aria-activedescendant', 'palette-' + chosen);
    else box.removeAttribute('aria-activedescendant');
  }

  function paint(found) {
    entries = found;
    chosen = 0;
    list.replaceChildren(...entries.map((entry, index) => {
      const row = document.createElement('div');
      row.id = 'palette-' + index;
      row.className = 'palette-row';
      row.setAttribute('role', 'option');
      for (const [name, text] of [['kind', entry.kind], ['label', entry.label], ['detail', entry.detail || '']]) {
        const part = document.createElement('span');
        part.className = 'palette-' + name;
        part.textContent = text;
        row.append(part);
      }
      row.addEventListener('click', () => open(index));
      return row;
    }));
    mark();
  }

  function open(index) {
    const entry = entries[index];
    if (!entry) return;
    dialog.close();
    if (entry.act) { entry.act(); return; }
    const target = new URL(entry.href, location.href);
    const report = target.searchParams.get('report');
    const isListed = !report || window.tilescope.isKnown(report);  // else only the server knows its name
    if (isApp && isListed && pages.some((page) => page.path === target.pathname)) {
      window.tilescope.go(target.pathname + target.search);
    } else {
      location.assign(target);
    }
  }

  async function look() {
    const text = box.value.trim();
    const turn = asked += 1;
    const first = [...own(text), ...await matchingReports(text), ...settings(text)];
    if (turn !== asked) return;
    if (!isApp || !text) {
      paint(first);
      note.textContent = first.length || !text ? ''
        : 'No match. Operations, variables, steps and tiles are those of a report: open one first.';
      return;
    }
    const report = new URLSearchParams(location.search).get('report') || window.tilescope.newestReport();
    const address = '/api/find/' + encodeURIComponent(report) + '?' + new URLSearchParams({text});
    const answer = await json(address);
    if (turn !== asked) return;
    const matches = (answer ? answer.matches : []).map((match) => ({
      kind: match.kind, label: match.label, detail: match.detail,
      href: match.path + query({...match.parameters, select: match.select}),
    }));
    paint([...first, ...matches]);
    note.textContent = entries.length ? answer?.note || '' : 'No match.';
  }

  box.addEventListener('input', look);
  dialog.addEventListener('keydown', (event) => {
    const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (by && entries.length) {
      event.preventDefault();
      chosen = (chosen + by + entries.length) % entries.length;
      mark();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      open(chosen);
    }
  });

  function openPalette() {
    if (dialog.open) { dialog.close(); return; }
    box.value = '';
    look();
    dialog.showModal();
    box.focus();
  }
  document.getElementById('palette-button').addEventListener('click', openPalette);
  window.tilescope = Object.assign(window.tilescope || /** @type {TileScope} */ ({}), {openPalette});
})();
