"""The kernel of convolution and product vertices.

The output field is cut into rectangles in which the same taps of the window lie inside the input:
the list of these taps and that of the pixels serve all groups, images and output channels. Taps
that lie in padding are skipped, not multiplied by zero.
"""

from __future__ import annotations

from tilescope.engine.host.jit._jit import jit
from tilescope.engine.host.kernels._addresses import AT_ONCE, address, list_places
from tilescope.engine.host.kernels._indices import unsigned
from tilescope.engine.host.kernels._lanes import (
    DOT_LANES,
    GROUPS,
    SEVERAL_OUTPUTS,
    SPREAD_LANES,
    dot_kernel,
    each_kernel,
    row_kernel,
    spread_kernel,
)
from tilescope.engine.host.kernels._work_arrays import free, malloc, stack_array_of

__all__ = ["convolve"]

#: Pixels whose inputs stay in the cache for all outputs.
_PIXELS = 256
_DOT_LANES = DOT_LANES
_by_twice_16, _by_four_8, _by_twice_8, _by_8, _by_4, _by_1 = (
    row_kernel(lanes, groups) for lanes, groups in GROUPS
)
_each_16, _each_8, _each_4, _each_1 = (each_kernel(lanes) for lanes in (16, 8, 4, 1))
_dots_4, _dots_2, _dots_1 = (dot_kernel(outputs) for outputs in (4, 2, 1))
_several_16, _several_8 = (each_kernel(lanes, SEVERAL_OUTPUTS) for lanes in (16, 8))
_SPREAD_LANES, _SEVERAL_OUTPUTS = SPREAD_LANES, SEVERAL_OUTPUTS
_spread_each, _spread_padded, _spread_several = (
    spread_kernel(*outputs) for outputs in ((1, 1), (SEVERAL_OUTPUTS, 1), (SEVERAL_OUTPUTS,) * 2)
)
#: Workspace for the lists of pixels, and for those of taps unless they are many.
_places, _few_taps = stack_array_of(2 * (_PIXELS + AT_ONCE)), stack_array_of(512)
#: And for sizes and strides.
_seven, _six_strides = stack_array_of(7), stack_array_of(6)
#: Pixels of a field from which arranging inputs and weights for several pixels at once pays off.
_LEAST_SPREAD = 48


@jit
def _six(numbers):  # type: ignore[no-untyped-def]
    """Return the first six sizes or strides: an array is seven numbers to pass, and counted."""
    return numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5]


@jit
def _pack(size, stride):  # type: ignore[no-untyped-def]
    """Write the strides of contiguous elements, outermost first, and return their number."""
    n = 1
    for d in range(size.size - 1, -1, -1):
        stride[d] = n
        n *= size[d]
    return n


@jit
def _place(number, start, size, stride, n_dims):  # type: ignore[no-untyped-def]
    """Return where the elements with a number in the first dimensions begin."""
    for d in range(n_dims - 1, -1, -1):
        length = size[d]
        if length > 1:
            rest = number // length
            start += (number - rest * length) * stride[d]
            number = rest
    return start


@jit
def _own_weights(w, w_start, w_size, w_stride, n_combined, weights, stride):  # type: ignore[no-untyped-def]
    """Write the weights within combined groups, as of groups inside."""
    count, n_own, pitch = w_size[5] // n_combined, w_size[6] // n_combined, w_stride[5]
    target, n_columns, apart = 0, w_size[4], count * pitch + n_own
    for row in range(weights.size // stride[3]):
        offset = _place(row, w_start, w_size, w_stride, 4)
        for _ in range(n_columns):
            for i in range(count):
                for o in range(n_own):
                    source = offset + i * pitch + o
                    for g in range(n_combined):
                        weights[target + o + g * n_own] = w[source + g * apart]
                target += n_combined * n_own
            offset += w_stride[4]


@jit
def _contiguous_inputs(x, x_start, x_size, x_stride, target_):  # type: ignore[no-untyped-def]
    """Write the inputs with those of neighbouring pixels contiguous."""
    n, width, step = x_size[5], x_size[4], x_stride[4]
    apart, together = unsigned(step), unsigned(n)
    for row in range(target_.size // (n * width)):
        offset, target = _place(row, x_start, x_size, x_stride, 4), row * n * width
        for i in range(n):
            source, to = unsigned(offset + i), unsigned(target + i)
            for column in range(unsigned(width)):
                target_[to + column * together] = x[source + column * apart]


@jit
def _spread_weights(w, n_inside, n_own, n_requested, rows):  # type: ignore[no-untyped-def]
    """Write the weights of groups inside as the lanes of several pixels take them."""
    target, first = 0, 0
    while first < w.size:
        for output in range(n_requested):
            for i in range(n_inside):
                value = w[first + i * n_own + output]
                for lane in range(i, _SPREAD_LANES, n_inside):
                    rows[target + lane] = value
            target += _SPREAD_LANES
        first += n_inside * n_own


@jit
def _of_own_inputs(  # type: ignore[no-untyped-def]
    out, out_places, x, x_places, w, tap_x, tap_w, n_taps, n_inputs, n_own, n_pixels
):
    """Compute `n_own` outputs for each of some contiguous inputs; return for how many inputs."""
    i = 0
    if n_own == 1:
        while n_inputs - i >= 16:
            _each_16(out + 4 * i, out_places, 0, x + 4 * i, x_places, 0, w + 4 * i, 0, 0,
                     tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 16
        while n_inputs - i >= 8:
            _each_8(out + 4 * i, out_places, 0, x + 4 * i, x_places, 0, w + 4 * i, 0, 0,
                    tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 8
        while n_inputs - i >= 4:
            _each_4(out + 4 * i, out_places, 0, x + 4 * i, x_places, 0, w + 4 * i, 0, 0,
                    tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 4
        while n_inputs - i >= 1:
            _each_1(out + 4 * i, out_places, 0, x + 4 * i, x_places, 0, w + 4 * i, 0, 0,
                    tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 1
    elif n_own == _SEVERAL_OUTPUTS:
        while n_inputs - i >= 4:
            _several_16(out + 16 * i, out_places, 0, x + 4 * i, x_places, 0, w + 16 * i, 0, 0,
                        tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 4
        while n_inputs - i >= 2:
            _several_8(out + 16 * i, out_places, 0, x + 4 * i, x_places, 0, w + 16 * i, 0, 0,
                       tap_x, tap_w, n_taps, 1, n_pixels)  # fmt: skip
            i += 2
    return i


@jit
def _of_several_pixels(  # type: ignore[no-untyped-def]
    out, out_places, x, x_places, w, tap_x, tap_w, n_taps, n_own, n_requested, n_pixels
):
    """Compute the outputs of the inputs of several pixels, `n_own` for each of these."""
    if n_own == 1:
        _spread_each(out, out_places, 0, x, x_places, 0, w, 0, 0, tap_x, tap_w, n_taps, 1, n_pixels)
    elif n_requested == 1:
        _spread_padded(out, out_places, 0, x, x_places, 0, w, 0, 0, tap_x, tap_w, n_taps, 1,
                       n_pixels)  # fmt: skip
    else:
        _spread_several(out, out_places, 0, x, x_places, 0, w, 0, 0, tap_x, tap_w, n_taps, 1,
                        n_pixels)  # fmt: skip


@jit
def _of_single_outputs(  # type: ignore[no-untyped-def]
    n_groups, out, out_places, out_apart, x, x_places, w, w_apart, tap_x, tap_w, n_taps, count,
    n_pixels,
):  # fmt: skip
    """Compute groups of one output for contiguous inputs; return for how many groups."""
    if n_groups >= 4:
        _dots_4(out, out_places, out_apart, x, x_places, 1, w, 1, w_apart, tap_x, tap_w, n_taps,
                count, n_pixels)  # fmt: skip
        return 4
    if n_groups >= 2:
        _dots_2(out, out_places, out_apart, x, x_places, 1, w, 1, w_apart, tap_x, tap_w, n_taps,
                count, n_pixels)  # fmt: skip
        return 2
    _dots_1(out, out_places, 0, x, x_places, 1, w, 1, 0, tap_x, tap_w, n_taps, count, n_pixels)
    return 1


@jit
def _groups_together(n_outputs, n_groups):  # type: ignore[no-untyped-def]
    """Return how many of some groups of outputs are computed together: see `GROUPS`."""
    if n_outputs == 8 and n_groups >= 4:
        return 4
    return 2 if n_outputs in (8, 16) and n_groups >= 2 else 1


@jit
def _products(  # type: ignore[no-untyped-def]
    out, out_size, out_stride, out_places, x, x_stride, x_places, w, w_stride, n_inside, n_spread,
    tap_x, tap_w, n_taps, count, n_pixels,
):  # fmt: skip
    """Compute all groups, images and outputs of some pixels.

    A group interleaves `n_inside` convolution groups. Outputs are computed in lanes: 16 at a time,
    then 8 and 4, then the rest singly. Two channel groups of 8 or 16 outputs are 16 or 32 lanes,
    and four of 8 are 32. Or lanes are the inputs of several pixels: then a place of the lists
    stands for all of them, and `n_spread` of the outputs of an input are requested. All that a
    kernel takes is numbers and addresses: see `row_kernel`.
    """
    n_images, n_outputs, x_step, w_pitch = out_size[1], out_size[5], x_stride[5], w_stride[5]
    n_own = n_outputs // n_inside
    is_dot = n_outputs == 1 and x_step == 1 and w_pitch == 1 and count >= _DOT_LANES
    for i in range(out_size[0] * n_images):
        group = i // n_images
        image = i - group * n_images
        image_at = x + 4 * (group * x_stride[0] + image * x_stride[1])
        out_group = 0
        while out_group < out_size[2]:
            row_at = group * out_stride[0] + image * out_stride[1] + out_group * out_stride[2]
            row_at = out + 4 * row_at
            w_at = w + 4 * (group * w_stride[0] + out_group * w_stride[1])
            if is_dot:
                out_group += _of_single_outputs(
                    out_size[2] - out_group, row_at, out_places, out_stride[2], image_at, x_places,
                    w_at, w_stride[1], tap_x, tap_w, n_taps, count, n_pixels,
                )  # fmt: skip
                continue
            n_together = _groups_together(n_own, out_size[2] - out_group)
            out_group += n_together
            if n_spread > 0:
                _of_several_pixels(row_at, out_places, image_at, x_places, w_at, tap_x, tap_w,
                                   n_taps, n_own, n_spread, n_pixels)  # fmt: skip
                continue
            n_done = 0
            if count == 1 and x_step == 1:
                n_done = _of_own_inputs(row_at, out_places, image_at, x_places, w_at, tap_x, tap_w,
                                        n_taps, n_inside, n_own, n_pixels)  # fmt: skip
            # Of groups that are computed together, outputs of the first one are counted.
            step, out_apart, w_apart = 16, 8, 8
            if n_together > 1:
                step, out_apart, w_apart = 8, out_stride[2], w_stride[1]
            for g in range(n_done, n_inside):
                x_at = image_at + 4 * g * count * x_step
                out_at, own_at = row_at + 4 * g * n_own, w_at + 4 * g * n_own
                o = 0
                if n_together == 4:
                    _by_four_8(out_at, out_places, out_apart, x_at, x_places, x_step, own_at,
                               w_pitch, w_apart, tap_x, tap_w, n_taps, count,
                               n_pixels)  # fmt: skip
                    o = 8
                elif n_together == 2 and n_own == 16:
                    _by_twice_16(out_at, out_places, out_apart, x_at, x_places, x_step, own_at,
                                 w_pitch, w_apart, tap_x, tap_w, n_taps, count,
                                 n_pixels)  # fmt: skip
                    o = 16
                while n_own - o >= step:
                    _by_twice_8(out_at + 4 * o, out_places, out_apart, x_at, x_places, x_step,
                                own_at + 4 * o, w_pitch, w_apart, tap_x, tap_w, n_taps, count,
                                n_pixels)  # fmt: skip
                    o += step
                while n_own - o >= 8:
                    _by_8(out_at + 4 * o, out_places, 0, x_at, x_places, x_step, own_at + 4 * o,
                          w_pitch, 0, tap_x, tap_w, n_taps, count, n_pixels)  # fmt: skip
                    o += 8
                while n_own - o >= 4:
                    _by_4(out_at + 4 * o, out_places, 0, x_at, x_places, x_step, own_at + 4 * o,
                          w_pitch, 0, tap_x, tap_w, n_taps, count, n_pixels)  # fmt: skip
                    o += 4
                while n_own - o >= 1:
                    _by_1(out_at + 4 * o, out_places, 0, x_at, x_places, x_step, own_at + 4 * o,
                          w_pitch, 0, tap_x, tap_w, n_taps, count, n_pixels)  # fmt: skip
                    o += 1


@jit
def _taps_inside(n_taps, first, step, size):  # type: ignore[no-untyped-def]
    """Return the range of taps for which `first + tap * step` is inside `size`."""
    if step == 1:  # divisions take longer than the rest
        low, high = max(0, -first), size - first
    else:
        low = 0 if first >= 0 else (-first + step - 1) // step
        high = 0 if first >= size else (size - 1 - first) // step + 1
    low = min(low, n_taps)
    return low, max(low, min(high, n_taps))


@jit
def _alike(begin, n, n_taps, stride, dilation, shift, size):  # type: ignore[no-untyped-def]
    """Return the end of the outputs from `begin` with the same taps inside, and these taps."""
    low, high = _taps_inside(n_taps, begin * stride + shift, dilation, size)
    end = begin + 1
    if low == 0 and high == n_taps:  # all: up to the output whose last tap is the last inside
        last = size - 1 - shift - (n_taps - 1) * dilation
        return max(end, min(n, last // stride + 1)), low, high
    while end < n:
        next_low, next_high = _taps_inside(n_taps, end * stride + shift, dilation, size)
        if next_low != low or next_high != high:
            break
        end += 1
    return end, low, high


@jit
def _list_taps(  # type: ignore[no-untyped-def]
    taps, y_low, y_high, x_low, x_high, y_steps, x_steps, n_groups, group_steps, count,
    x_step, w_pitch, n_inside,
):  # fmt: skip
    """List the taps of a window; return their number and the inputs of a tap.

    The first half of the list is offsets of the inputs, the second one of the weights. Taps along a
    row whose inputs continue those of the tap before are one.
    """
    n_columns = x_high - x_low
    if n_inside * n_groups == 1 and x_steps[0] == count * x_step and x_steps[1] == count * w_pitch:
        count, n_columns = count * n_columns, min(n_columns, 1)
    n, half = 0, taps.size // 2
    for y in range(y_low, y_high):
        for column in range(x_low, x_low + n_columns):
            for g in range(n_groups):
                taps[n] = y * y_steps[0] + column * x_steps[0] + g * group_steps[0]
                taps[half + n] = y * y_steps[1] + column * x_steps[1] + g * group_steps[1]
                n += 1
    return n, count


@jit
def _over_field(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, rows, row_stride, n_spread, taps,
    addresses, out, out_start, out_size, out_stride, stride_y, stride_x, dilation_y, dilation_x,
    shift_y, shift_x,
):  # fmt: skip
    """Convolve a tile's data whose groups are interleaved.

    `rows` are the weights for the inputs of several pixels at once, with `n_spread` outputs for
    each of them, or empty; taps and places are workspace.
    """
    x_at, w_at, out_at = address(x, x_start), address(w, w_start), address(out, out_start)
    tap_x, tap_w = address(taps, 0), address(taps, taps.size // 2)
    x_places, out_places = address(addresses, 0), address(addresses, addresses.size // 2)
    n_inside = x_size[5] // w_size[5]
    most_together = _SPREAD_LANES // n_inside
    n_rows, n_columns = out_size[3], out_size[4]
    x_pitch, x_step, out_pitch, out_step = x_stride[3], x_stride[4], out_stride[3], out_stride[4]
    first_y = 0
    while first_y < n_rows:
        end_y, y_low, y_high = _alike(
            first_y, n_rows, w_size[3], stride_y, dilation_y, shift_y, x_size[3]
        )
        first_x = 0
        while first_x < n_columns:
            end_x, x_low, x_high = _alike(
                first_x, n_columns, w_size[4], stride_x, dilation_x, shift_x, x_size[4]
            )
            if n_spread > 0 and end_x - first_x >= most_together:
                n_together, n_requested = most_together, n_spread
                own_at, own_stride = address(rows, 0), row_stride
            else:
                n_together, n_requested, own_at, own_stride = 1, 0, w_at, w_stride
            n_taps, count = _list_taps(
                taps, y_low, y_high, x_low, x_high,
                (dilation_y * x_pitch, own_stride[3]),
                (dilation_x * x_step, own_stride[4]), w_size[2], (x_stride[2], own_stride[2]),
                w_size[5], x_stride[5], own_stride[5], n_inside,
            )  # fmt: skip
            n_places = -(-(end_x - first_x) // n_together)
            x_next, out_next = n_together * stride_x * x_step, n_together * out_step
            n = 0
            for y in range(first_y, end_y):
                x_row = (y * stride_y + shift_y) * x_pitch + shift_x * x_step
                out_row = y * out_pitch
                n_done = 0
                while n_done < n_places:
                    n_more = min(_PIXELS - n, n_places - n_done)
                    column = first_x + n_done * n_together
                    list_places(
                        x_places + 8 * n, x_row + column * stride_x * x_step, x_next, n_more
                    )
                    list_places(out_places + 8 * n, out_row + column * out_step, out_next, n_more)
                    n, n_done = n + n_more, n_done + n_more
                    if n_done == n_places:
                        # The last one, which may compute some pixels again, and after it as padding
                        column = end_x - n_together
                        last = 8 * (n - 1)
                        list_places(x_places + last, x_row + column * stride_x * x_step, 0, 1)
                        list_places(out_places + last, out_row + column * out_step, 0, 1)
                    if n < _PIXELS and (y < end_y - 1 or n_done < n_places):
                        continue
                    _products(
                        out_at, out_size, out_stride, out_places, x_at, x_stride, x_places, own_at,
                        own_stride, n_inside, n_requested, tap_x, tap_w, n_taps, count, n,
                    )  # fmt: skip
                    n = 0
            first_x = end_x
        first_y = end_y


@jit
def convolve(  # type: ignore[no-untyped-def]
    x, x_start, x_size, x_stride, w, w_start, w_size, w_stride, out, out_start, out_size,
    out_stride, stride_y, stride_x, dilation_y, dilation_x, shift_y, shift_x, n_combined,
    n_requested,
):  # fmt: skip
    """Convolve a tile's data.

    x is [group, image, in group, y, x, input], w [group, out group, in group, ky, kx, input,
    output] and out [group, image, out group, y, x, output]. A group may interleave several
    convolution groups: its inputs and outputs are theirs, concatenated, and an input's weights are
    those of its own convolution group. Or it has `n_combined` of them whose weights are in one
    block, with zeros between different groups, which are not read. Of the outputs of a convolution
    group, `n_requested` are not padding, whose weights are zero.
    """
    own_weights, inputs, rows, n_spread, row_stride = w[:0], x[:0], w[:0], 0, _seven(x_size)
    if n_combined > 1:
        size, stride = _seven(x_size), _seven(x_size)
        for d in range(7):
            size[d] = w_size[d]
        size[5] //= n_combined
        own_weights = malloc(_pack(size, stride), w)
        _own_weights(w, w_start, w_size, w_stride, n_combined, own_weights, stride)
        w, w_start, w_size, w_stride = own_weights, 0, size, stride
        n_own = w_size[6] // n_combined
        if (
            w_size[5] == 1
            and (n_own == _SEVERAL_OUTPUTS or (n_own == 1 and x_stride[4] == x_size[5]))
            and n_combined < _SPREAD_LANES
            and _SPREAD_LANES % n_combined == 0
            and x_stride[5] == 1
            and x_size[5] == n_combined
            and out_stride[4] == out_size[5]
            and stride_x == 1
            and out_size[3] * out_size[4] >= _LEAST_SPREAD
        ):
            if x_stride[4] != x_size[5]:
                packed = _six_strides(x_size)
                inputs = malloc(_pack(x_size, packed), x)
                _contiguous_inputs(x, x_start, x_size, x_stride, inputs)
                x, x_start, x_stride = inputs, 0, packed
            n_spread = 1 if n_requested == 1 else n_own
            length, row_stride[5] = n_spread * _SPREAD_LANES, _SPREAD_LANES
            for d in range(4, -1, -1):
                row_stride[d] = length
                length *= w_size[d]
            rows = malloc(length, w)
            _spread_weights(w, n_combined, n_own, n_spread, rows)
    taps, n_taps = _few_taps(x_size), w_size[2] * w_size[3] * w_size[4]
    many = taps[:0]
    if 2 * n_taps > taps.size:
        taps = many = malloc(2 * n_taps, x_size)
    _over_field(
        x, x_start, _six(x_size), _six(x_stride), w, w_start, _six(w_size),
        _six(w_stride), rows, _six(row_stride), n_spread, taps, _places(x_size), out, out_start,
        _six(out_size), _six(out_stride), stride_y, stride_x, dilation_y, dilation_x, shift_y,
        shift_x,
    )  # fmt: skip
    free(own_weights)
    free(inputs)
    free(rows)
    free(many)
