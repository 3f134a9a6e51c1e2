export function steadily(
  pace: { count: number; perSecond: number },
  call: (index: number) => Promise<number>,
): Promise<{ sentAt: Float64Array; achieved: number }>;
