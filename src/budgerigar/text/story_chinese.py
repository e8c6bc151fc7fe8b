"""The Chinese sentences of the stories, as templates (marks: see `story_grammar`).

Words are parted by spaces here, so that each can carry its marks; a story is written without.
"""

from __future__ import annotations

MEMORY_OPENINGS = (
    "{Name}/S 小 时候 有/V 一 只 {pet}/T 。",
    "{Name}/S 小 时候 养/V 了 一 只 {pet}/T 。",
    "很 久 以前 ， {Name}/S 有/V 一 只 {pet}/T 。",
    "{Name}/S 七 岁 时 得到/V 了 一 只 {pet}/T 。",
)
MEMORY_LOOKS = (
    "它/I 的 {part}/S 是/V {quality}/P 的 。",
    "它/SI 住/V 在 {home} ， {part}/S 是/V {quality}/P 的 。",
    "那 只 {pet}/T 的 {part}/S 是/V {quality}/P 的 。",
    "那 只 {pet}/ST 有/V {quality}/A 的 {part}/N 。",
)
MEMORY_PETS = (
    "它/SI 喜欢/V 吃 {food} 。",
    "那 只 {pet}/ST 最 喜欢/V 吃 {food} 。",
    "每天 早上 ， 那 只 {pet}/ST 在 {home} {act}/V 。",
    "每天 晚上 ， {he}/S 给/V 那 只 {pet}/T 一点 {food} 。",
    "放学 以后 ， {he}/S 和 那 只 {pet}/T 一起 玩/V 。",
    "那 只 {pet}/ST 没有 吃/V {food}/F ， 因为 它/SI 不 饿/P 。",
    "那 只 {pet}/ST 没有 吃/V {food}/F ， 因为 它/SG 不 新鲜/P 。",
    "那 只 {pet}/ST （ {quality}/A 的 {part}/N ） 在 {home} 睡觉/V 。",
    "{he}/S 难过/V 的 时候 ， 就 和 那 只 {pet}/T 说话 。",
)
RECALLS = (
    "有时候 {he}/S 想起/V 那 只 {pet}/T 。",
    "{he}/S 给 朋友 讲/V 那 只 {pet}/T 的 故事 。",
    "{he}/S 画/V 了 那 只 {pet}/T 。",
    "{he}/S 在 梦 里 又 看见/V 了 那 只 {pet}/T 。",
    "{he}/S 的 {relative}/S 问起/V 那 只 {pet}/T 。",
)
OTHERS = (
    "邻居/S 有/V 一 只 {other} 。",
    "墙 上 坐/V 着 一 只 {other} 。",
    "{he}/S 在 公园 里 看见/V 了 一 只 {other} 。",
    "{he}/S 的 {relative}/S 买/V 了 一 只 {other} 。",
    "有人/S 在 市场 卖/V 一 只 {other} 。",
)
MEMORY_FILLER = (
    "一 年 又 一 年 过去 了 。",
    "冬天/S 来/V 了 ， 雪/S 落/V 在 {place} 里 。",
    "春天/S 来/V 了 ， 树/S 变/V 绿/P 了 。",
    "夏天/S 很 长/P ， 也 很 {weather}/P 。",
    "秋天 的 风/S 很 {windy}/P 。",
    "后来 {he}/S 搬/V 到 了 海边 的 {big}/A 城市/N 。",
    "{he}/S 学会/V 了 {skill} 和 {skill} 。",
    "{he}/S 在 {shop} 工作/V ， 每天 起得 很 早 。",
    "{he}/S 在 {place} 旁边 的 {shop} 找到/V 了 工作 。",
    "{he}/S 买/V 了 {colour}/A 的 {thing}/NF ， 把 它/G 带 回 了 家 。",
    "{he}/S 丢/V 了 {thing}/F ， {he} 的 朋友/S 找到/V 了 它/G 。",
    "{day} ， {he}/S 给 邻居 做/V 面包 。",
    "{day} ， {he}/S 和 {relative} 一起 去/V {place} 。",
    "{day} ， {he}/S 在 家 里 看/V 一 本 {big}/A 的 书/N 。",
    "{he}/S 给 {relative} 写/V 了 一 封 {long}/A 信/N 。",
    "{he}/S 把 门 刷/V 成 了 {colour} 。",
    "房子/S 有/V {colour}/A 的 门/N 和 {big}/A 的 花园/N 。",
    "{he}/S 在 花园 里 种/V 了 {plant} 。",
    "{he}/S 的 {relative}/S （ 一 位 {job} ） 住/V 在 城 里 。",
    "{he}/S 的 {relative}/S 来 喝/V 茶 ， 讲/V 了 一 个 {long}/A 故事/N 。",
    "火车/SF （ 它/SG 又 晚/V 了 ） 停/V 在 桥 边 。",
    "{he}/S 的 朋友/S （ 一 位 {job} （ 也 是 {job} ） ） 在 {place} 里 唱歌/V 。",
    "有 一 次 {he}/S 迷路/V 了 ， 一 位 {job}/S 帮/V 了 {he} 。",
    "夜里 ， {he}/S 看/V 着 {place} 上空 的 月亮 。",
    "有 一 天 ， {he}/S 把 {thing} 卖/V 给 了 一 位 {job} 。",
    "晚上 {he}/S 做/V {food} 和 {food} 。",
    "公共汽车/S 是/V {colour}/P 的 ， 里面 人/S 很 多/P 。",
    "{he}/S 很 {feeling}/P ， 日子/S 很 长/P 。",
    "每 年 夏天 ， {he}/S 都 去/V {place} 。",
    "河水/S 很 {weather}/P ， 船/S 是/V {colour}/P 的 。",
)
GAPS = ("但是 {he}/S 一直 记得/V 小 时候 的 那 只 {pet}/T 。",)
OWNER_GAPS = ("但是 {Name}/S 一直 记得/V 小 时候 的 那 只 {pet}/T 。",)
MEMORY_ENDINGS = (
    "它/SI 是/V {he} 最好/A 的 朋友/N 。",
    "想起 它/I 的 时候 ， {he}/S 就 很 高兴/P 。",
)

TODAY_OPENINGS = (
    "{Name}/S 有/V 一 只 {pet}/T ， 它/I 的 {part}/S 是/V {quality}/P 的 。",
    "{Name}/S 有/V 一 只 {pet}/T ， 它/SI 住/V 在 {home} 。",
    "{Name}/S 有/V 一 只 {size}/A {pet}/NT ， 它/SI 有/V {quality}/A 的 {part}/N 。",
)
TODAY_LOOKS = (
    "那 只 {pet}/ST 在 {home} {act}/V 。",
    "那 只 {pet}/ST 喜欢/V 吃 {food} 。",
    "它/SI 很 {feeling}/P 。",
)
TODAY_PETS = (
    "每天 早上 ， 它/SI 在 {home} {act}/V 。",
    "那 只 {pet}/ST 饿/P 的 时候 ， {he}/S 给/V 它/I {food} 。",
    "那 只 {pet}/ST （ 它/SI 今天 很 {feeling}/P ） 在 {home} {act}/V 。",
    "下班 以后 ， {Name}/S 和 那 只 {pet}/T 玩/V 。",
    "{he}/S 的 {relative}/S 也 喜欢/V 那 只 {pet}/T 。",
)
TODAY_FILLER = (
    "{Name}/S 在 {place} 旁边 的 {shop} 工作/V 。",
    "{he}/S 的 {relative}/S （ 一 位 {job} ） 住/V 在 城 里 。",
    "房子/S 有/V {colour}/A 的 门/N 和 {big}/A 的 花园/N 。",
    "{day} ， {he}/S 和 {relative} 一起 去/V {place} 。",
    "晚上 {he}/S 做/V {food} 和 {food} 。",
)
TODAY_GAPS = (
    "晚上 ， {he}/S 坐/V 着 看 那 只 {pet}/T 。",
    "{Name}/S 非常 爱/V 那 只 {pet}/T 。",
)

SLOTS: dict[str, tuple[str, ...]] = {
    "relative": ("妈妈", "爸爸", "姐姐", "哥哥", "奶奶", "爷爷", "叔叔"),
    "size": ("小", "大"),
    "big": ("大", "小", "旧", "新", "漂亮"),
    "long": ("长", "短"),
    "weather": ("暖和", "冷", "美"),
    "feeling": ("高兴", "难过", "累", "安静"),
    "windy": ("冷", "大", "暖和"),
    "plant": ("胡萝卜", "生菜", "苹果", "番茄"),
    "place": ("公园", "森林", "市场", "车站", "广场", "村子"),
    "shop": ("面包店", "学校", "图书馆", "医院", "书店"),
    "thing": ("自行车", "雨伞", "帽子", "大衣", "椅子", "台灯", "书包"),
    "colour": ("红色", "蓝色", "绿色", "黄色", "白色", "黑色", "棕色"),
    "day": ("星期一", "星期五", "星期六", "星期天"),
    "skill": ("读书", "写字", "游泳", "做饭", "画画", "唱歌", "跳舞"),
    "job": ("医生", "老师", "面包师", "画家", "农民", "歌手"),
    "food": ("苹果", "面包", "胡萝卜", "奶酪", "鱼", "生菜", "肉", "坚果"),
}
